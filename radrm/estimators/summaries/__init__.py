"""Readers of model summaries, which PyTorch and Keras users print: text to typed layers.

There is one reader for each form. `read.read_summary` finds the first complete summary in a
text. Nothing here estimates.

The files, in the order in which they may import one another:
    layers         the records: Form, Layer, ModelSummary
    text           lines, numbers and shapes within bounds; BadSummary
    arguments      the arguments that PyTorch's modules print, and their parameters
    torchsummary   the table of torchsummary
    torchinfo      the tree of torchinfo
    keras          the tables of Keras 2 and 3
    modules        print(model), annotated or not
    read           finds the form of a text, and reads it
"""
