"""How rules are asked, and what is made of their answers.

The files, in the order in which they may import one another:
    assembly  from chosen devices to a placement
    fallback  a policy's choice, checked, or another's in its place
    asking    how planners are asked
"""
