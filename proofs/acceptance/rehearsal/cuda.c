/* Stands in for libcuda: the bad kernel of tests/gpu/programs/kernels.py.

   `standin_broken` tells modules/torch whether it was launched. */
static int broken;

int cuModuleLoadData(void **module, const void *image)
{
    *module = (void *)image;
    return 0;
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module, (void)name;
    *function = &broken;
    return 0;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **given, void **extra)
{
    (void)function, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz;
    (void)shared, (void)stream, (void)given, (void)extra;
    broken = 1;
    return 0;
}

int standin_broken(void)
{
    return broken;
}
