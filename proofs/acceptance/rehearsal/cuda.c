/* Stands in for libcuda: the kernels of tests/gpu/programs/kernels.py.

   modules/torch asks what was launched: the bad kernel, and how many of which size since the last
   time. */
#include <string.h>

static int broken;
static unsigned launches, blocks, threads;

int cuModuleLoadData(void **module, const void *image)
{
    *module = (void *)image;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = strcmp(name, "bad") == 0 ? (void *)&broken : (void *)&launches;
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **given, void **extra)
{
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)given, (void)extra;
    if (function == &broken)
        broken = 1;
    launches++;
    blocks = gx;
    threads = bx;
    return 0;
}

int standin_broken(void)
{
    return broken;
}

unsigned standin_launches(unsigned *grid)
{
    unsigned count = launches;
    grid[0] = blocks;
    grid[1] = threads;
    launches = 0;
    return count;
}
