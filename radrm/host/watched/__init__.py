"""Watched folders: a `.rad` file in one becomes a job of the folder's owner.

The daemon itself reads no file in them. It starts a *look*: a short-lived process that becomes the
owner. The look makes an envelope of each complete file as `radrm submit` does, and moves the file
to `done/` or `refused/`. So the spool has one protocol, and only a process with the user's rights
touches a user's folder.

The files, in the order in which they may import one another:
    names       the names in a folder and their meaning
    folder      one open folder: its owner, its claims, `done/` and `refused/`
    login       the environment of a user's login
    taking      one look: from files to envelopes
    start_look  the main program of a look's process
    looking     starts that process, limits it and reads its report
    users       the folders of users below a system daemon's spool
    keeper      decides which folders get a look, and when
"""
