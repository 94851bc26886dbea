"""What has been: reports and the history.

The files, in the order in which they may import one another:
    periods    the time that a report is about
    energy     the energy report
    report     sums by user, group, job, GPU or day
    history    past jobs and their sums
    html_page  the parts of a page as one HTML file
"""
