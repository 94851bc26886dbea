/* The state file: read again when it has changed, appended to, and looked up. */
#include "state.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char STATE_VARIABLE[] = "STAND_IN_NVML_STATE";

/* ------------------------------------------------------------------ looking up */

bool is_instance(const Device *device)
{
    return device->parent[0] != '\0';
}

Device *find_any(State *state, const char *uuid)
{
    for (int i = 0; i < state->device_count; i++)
        if (strcmp(state->devices[i].uuid, uuid) == 0)
            return &state->devices[i];
    return NULL;
}

const Device *find_device(const State *state, const char *uuid)
{
    const Device *device = find_any((State *)state, uuid);
    if (!device || device->gone)
        return NULL;
    if (is_instance(device) && !find_device(state, device->parent))
        return NULL; /* instances go with their GPU */
    return device;
}

const Trouble *find_trouble(const State *state, TroubleKind kind, const char *function,
                            const char *uuid)
{
    for (int i = state->trouble_count - 1; i >= 0; i--) {
        const Trouble *trouble = &state->troubles[i];
        if (trouble->kind == kind && strcmp(trouble->uuid, uuid) == 0 &&
            fnmatch(trouble->function, function, 0) == 0)
            return trouble;
    }
    return NULL;
}

/* ------------------------------------------------------------------ the file */

/* False, with a word on stderr, for a line that says nothing: a test must not pass by a typo. */
static bool read_lines(State *state, FILE *file, const char *path)
{
    char *line = NULL;
    size_t size = 0;
    bool sound = true;
    for (int number = 1;; number++) {
        ssize_t length = getline(&line, &size, file);
        if (length <= 0 || line[length - 1] != '\n')
            break; /* the end, or a line that is still being written */
        line[length - 1] = '\0';
        Complaint wrong = read_line(state, line);
        if (wrong) {
            fprintf(stderr, "stand-in of NVML: %s, line %d: %s\n", path, number, wrong);
            sound = false;
        }
    }
    free(line);
    return sound;
}

/* What tells one content of the file from another: it grows by appending, so its size does. */
typedef struct {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
} Version;

static bool same_version(const Version *one, const Version *other)
{
    return one->device == other->device && one->inode == other->inode &&
           one->size == other->size && one->changed.tv_sec == other->changed.tv_sec &&
           one->changed.tv_nsec == other->changed.tv_nsec;
}

StateRead load_state(const State **given)
{
    static State state;
    static Version loaded;
    static StateRead outcome = STATE_MISSING;
    struct stat seen;
    *given = &state;
    const char *path = getenv(STATE_VARIABLE);
    if (!path || stat(path, &seen) != 0) {
        memset(&state, 0, sizeof state);
        return outcome = STATE_MISSING;
    }
    Version now = {seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtim};
    if (outcome != STATE_MISSING && same_version(&now, &loaded))
        return outcome;
    FILE *file = fopen(path, "re");
    if (!file)
        return outcome = STATE_MISSING;
    memset(&state, 0, sizeof state);
    outcome = read_lines(&state, file, path) ? STATE_READ : STATE_WRONG;
    fclose(file);
    loaded = now; /* of before the reading: what was appended meanwhile is read again */
    return outcome;
}

bool append_to_state(const char *line)
{
    const char *path = getenv(STATE_VARIABLE);
    int file = path ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (file < 0)
        return false;
    size_t length = strlen(line);
    bool written = write(file, line, length) == (ssize_t)length;
    return close(file) == 0 && written;
}
