"""How the core calls rules and checks their answers.

The files, in the order in which they may import one another:
    shapes    checks of the shape of answers
    assembly  from a policy's devices to a placement
    fallback  a policy's placement, or another policy's if the first fails
    asking    how planners are asked
    reasons   why a job waits
"""
