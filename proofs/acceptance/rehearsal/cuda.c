/* Stands in for libcuda: kernels of tests/gpu/programs/kernels.py that only take time.

   `standin_take` gives modules/torch what was launched since the last call. */
#include <string.h>

static const int square = 1, bad = 2;
static double seconds, width, warps;
static int broken;

int cuModuleLoadData(void **module, const void *image)
{
    *module = (void *)image;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    *function = (void *)(strcmp(name, "square") == 0 ? &square : &bad);
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **given, void **extra)
{
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    if (function == (void *)&bad) {
        broken = 1;
        return 0;
    }
    const double sms = 132, slots = 2048 * sms;
    seconds += 2e-8 * (double)*(unsigned long long *)given[1];
    width = gx < sms ? gx / sms : 1;
    warps = (double)gx * bx < slots ? gx * bx / slots : 1;
    return 0;
}

void standin_take(double *took, double *active, double *occupied, int *fault)
{
    *took = seconds, *active = width, *occupied = warps, *fault = broken;
    seconds = 0;
}
