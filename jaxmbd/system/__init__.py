"""What moves. Knows nothing of time stepping.

    bodies                            what moves
    joints, forces, contact           elements: what acts between bodies; each room imports only from those before it
    stacked                           bodies and elements of one kind as one; the layout of them all, which programs are compiled for
    workings, equations               what integrators work with: what a user writes who has equations, and what follows from it
    mechanism, system                 the same of bodies, joints and forces: as users hold them (System), and in a run (Prepared)
    balance, initial                  accelerations and multipliers at a state; a consistent start
    observing, faults                 what a run shows, and what was wrong with it
    building                          from a model, which a person writes, to a system
    statics                           rest, and small motions about it

Below them all, and so outside of any room: rotations, frames, parameters (reading and checking numbers),
checking, observable, state, elements.
"""
