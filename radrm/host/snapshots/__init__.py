"""`--snapshot`: copies of the code with which jobs were submitted. All of it runs as the user.

Theory of operation. `radrm submit` lists the files of the folder, writes a note about the copy,
copies, syncs, and only then submits, so a job that was acknowledged finds its code after a power
failure. The note lists every file of the copy with its size and time. A copy is removed by a later
`radrm submit --snapshot` of the same user: its listed files, if nobody has changed them. What jobs
have written into a copy is not radrm's and stays.

The files, in the order in which they may import one another:
    listing   which files of a folder belong into a copy
    copying   copy files and links
    places    where copies lie, their notes, and removing them
"""
