"""The accuracy of estimates on measured jobs.

trace_accuracy    compare `trace` and `faketensor` with measured memory
timm_tables       torchsummary tables of TIMM models (needs PyTorch)
summary_accuracy  compare `summary` with measured memory
errors_seen       the errors that ship with radrm, and how good upper bounds are
"""
