"""Every reproduction of the five papers, our numbers beside theirs, written to docs/reproductions.md with figures.

    python benchmarks/reproduce.py [semi-explicit] [rosenbrock] [contact-power] [bdf] [hht] [--quick]

Without names, all papers. `--quick` leaves out what takes longer than some minutes; the page says what that is and which command runs it. The
bearings need scikit-sundae (`pip install -e ".[benchmark]"`).
"""

import argparse
import importlib
import importlib.util
import sys
import time
from pathlib import Path

from reproductions import page

import jaxmbd as mbd

PAPERS = {
    "semi-explicit": "Semi-explicit splitting: Modin, Fritzson and Führer (2007)",
    "rosenbrock": "Rosenbrock–Nyström: Negrut, Sandu, Haug, Potra and Sandu (2003)",
    "contact-power": "Contact power: Modin, Führer, Fritzson and Söderlind",
    "bdf": "Scaled BDF: Bottasso, Bauchau and Cardona (2007)",
    "hht": "HHT: Negrut, Rampalli, Ottarsson and Sajdak (2005)",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("papers", nargs="*", help=f"{', '.join(PAPERS)}; all unless given")
    parser.add_argument("--quick", action="store_true", help="leave out what takes longer than some minutes")
    options = parser.parse_args()
    unknown = set(options.papers) - set(PAPERS)
    if unknown:
        parser.error(f"there is no paper {sorted(unknown)[0]!r}; there are {', '.join(PAPERS)}")
    sys.path.append(str(Path(__file__).parent / "papers"))  # its modules import each other by name
    mbd.fuse_loops()
    mbd.cache_compilations()
    for name in options.papers or PAPERS:
        module = f"reproductions.{name.replace('-', '_')}"
        began = time.perf_counter()
        try:
            found = importlib.util.find_spec(module)
        except ModuleNotFoundError:
            found = None
        if found is None:
            sections = [page.Section("All of it", [page.Row("tables and figures", "", "", "not yet")])]
        else:
            sections = importlib.import_module(module).run(options.quick)
        command = f"python benchmarks/reproduce.py {name}{' --quick' if options.quick else ''}"
        page.write(name, PAPERS[name], command, sections, list(PAPERS))
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
