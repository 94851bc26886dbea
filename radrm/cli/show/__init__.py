"""What people see: tables, cards, plots. What programs read is `--json`.

The files, in the order in which they may import one another:
    columns      rows and columns that fit the width there is
    render       tables and lines for people
    card         one job on one card
    live         the live picture of `radrm status --follow`
    demo         the demo's screen and table
    simulations  what simulations came to
    plots        pictures of simulations
"""
