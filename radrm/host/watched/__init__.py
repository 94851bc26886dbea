"""Watched folders: a `.rad` file in one becomes a job of the folder's owner.

The daemon reads no file in them. It starts a *look*: a short-lived process that becomes the
owner, makes an envelope of each complete file as `radrm submit` does, and moves the file to
`done/` or `refused/`. So the spool has one protocol, and all that happens in a user's folder
is done with that user's rights. `radrm watch` uses the same looks.

The files, in the order in which they may import one another:
    names       which names in a folder mean what
    folder      one folder, opened: whose it is, claims, `done/` and `refused/`
    login       the environment of a user's login
    taking      one look: from files to envelopes
    start_look  where the process of a look begins
    looking     that process, seen from outside
    users       the folders of users below a system daemon's spool
    keeper      which folders are looked into, and when
"""
