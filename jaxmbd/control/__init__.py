"""How large a step is."""

from .at_contacts import AtContacts as AtContacts
from .contact_power import ContactPower as ContactPower
from .local_error import LocalError as LocalError
from .stability import Stability as Stability
