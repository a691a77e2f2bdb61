"""What moves. Knows nothing of time stepping.

    bodies                            what moves
    joints, forces, contact           elements: what acts between bodies; each room imports only from those before it
    stacked                           bodies and elements of one kind as one
    equations, system                 what integrators work with: a user's own equations, or a mechanism
    balance, initial                  accelerations and multipliers at a state; a consistent start
    observing, faults                 what a run shows, and what was wrong with it
    building                          from a model, which a person writes, to a system
    statics                           rest, and small motions about it

Below them all, and so outside of any room: rotations, frames, parameters (reading and checking numbers),
checking, observable, state, elements.
"""
