"""Watched folders: a `.rad` file in one becomes a job of the folder's owner.

The daemon itself reads no file in them. It starts a *look*: a short-lived process that becomes the
owner. The look makes an envelope of each complete file as `radrm submit` does, and moves the file
to `done/` or `refused/`. So only a process with the user's rights touches a user's folder.

The files, in the order in which they may import one another:
    folders     the names in a folder, and the users' folders below a system daemon's spool
    login       the environment of a user's login
    look        one look: the main program of its process
"""
