"""Model summaries, read: what PyTorch and Keras users print, as typed layers.

One reader per form; `read.read_summary` finds the first whole summary in a text. Nothing
here estimates anything.

The files, in the order in which they may import one another:
    layers         the records: Form, Layer, ModelSummary
    text           lines, numbers and shapes within bounds; BadSummary
    arguments      what PyTorch's modules print of themselves, and their parameters
    torchsummary   the table of torchsummary
    torchinfo      the tree of torchinfo
    keras          Keras 2 and 3
    modules        print(model), annotated or not
    read           whichever of them it is
"""
