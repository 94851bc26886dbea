# The witness: it runs before each job of the soak, and writes down that the job has begun.
# Every process of a job inherits the lock. So if anything of an attempt lives when the next one
# begins, that one finds the lock taken.
say() {
  printf '%s %s %s %s %s\n' "$1" "$RADRM_JOB_ID" "$RADRM_ATTEMPT" "$EPOCHREALTIME" \
    "$SOAK_TICKET" >>"$SOAK/lines"
}
exec 9>>"$SOAK/locks/$RADRM_JOB_ID"
if flock -n 9; then say begun; else say doubled; fi
