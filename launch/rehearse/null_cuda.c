/* A CUDA runtime without GPUs, for `python -m launch rehearse`. Loaded before libcudart (LD_PRELOAD), it shows torch as
 * many devices as NULL_CUDA_DEVICES says, each with the memory of NULL_CUDA_MEMORY_GB. Streams and events exist,
 * allocations are reserved addresses without pages, and kernels, copies and matrix products return at once, undone.
 *
 * Signatures are spelled loosely on purpose: an argument that is not used is not named, so one file serves many versions. */
#define _GNU_SOURCE
#include <driver_types.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SMS 108 /* an A100's */
#define THREADS_PER_SM 2048
#define SHARED_PER_BLOCK (48 << 10)
#define SHARED_OPTIN (163 << 10)
#define OUT_OF_MEMORY 2
#define READ_BYTES 65536

static _Thread_local int current_device;
static long long kernels, products;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct Range {
    char *start;
    size_t size;
    int device; /* -1: page-locked main memory */
    struct Range *next;
} Range;
static Range *ranges;
static size_t used[64];

static int devices(void) {
    const char *text = getenv("NULL_CUDA_DEVICES");
    return text ? atoi(text) : 1;
}

static size_t memory(void) {
    const char *text = getenv("NULL_CUDA_MEMORY_GB");
    return (size_t)(text ? atof(text) : 10000.0) * 1000000000ull;
}

static Range *range_of(const void *pointer) {
    for (Range *range = ranges; range; range = range->next)
        if ((char *)pointer >= range->start && (char *)pointer < range->start + range->size) return range;
    return NULL;
}

static void remember(void *start, size_t size, int device) {
    Range *range = malloc(sizeof *range);
    *range = (Range){start, size, device, ranges};
    ranges = range;
}

static Range *forget(const void *start) {
    for (Range **link = &ranges; *link; link = &(*link)->next)
        if ((*link)->start == start) {
            Range *range = *link;
            *link = range->next;
            return range;
        }
    return NULL;
}

static int new_handle(void **out) {
    *out = malloc(16);
    return 0;
}

/* What a step did, for who asks through ctypes. */
long long null_cuda_kernels(void) { return kernels; }
long long null_cuda_products(void) { return products; }

/* devices */
int cudaGetDeviceCount(int *count) { *count = devices(); return 0; }
int cudaGetDevice(int *device) { *device = current_device; return 0; }
int cudaSetDevice(int device) { current_device = device; return 0; }
int cudaDriverGetVersion(int *version) { *version = 13000; return 0; }
int cudaRuntimeGetVersion(int *version) { *version = 13000; return 0; }
int cudaDeviceCanAccessPeer(int *can) { *can = 1; return 0; }
int cudaDeviceEnablePeerAccess(void) { return 0; }
int cudaDeviceSynchronize(void) { return 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }
int cudaDeviceGetPCIBusId(char *text, int size, int device) { snprintf(text, size, "0000:%02x:00.0", device); return 0; }
int cudaMemGetInfo(size_t *available, size_t *total) {
    *total = memory();
    *available = memory() - used[current_device];
    return 0;
}
int cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "null CUDA device (no GPU)");
    properties->uuid.bytes[0] = (char)device;
    properties->totalGlobalMem = memory();
    properties->major = 8;
    properties->multiProcessorCount = SMS;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    properties->maxThreadsPerMultiProcessor = THREADS_PER_SM;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->sharedMemPerBlock = SHARED_PER_BLOCK;
    properties->sharedMemPerBlockOptin = SHARED_OPTIN;
    properties->sharedMemPerMultiprocessor = SHARED_OPTIN + 1024;
    properties->l2CacheSize = 40 << 20;
    for (int axis = 0; axis < 3; axis++) {
        properties->maxThreadsDim[axis] = axis < 2 ? 1024 : 64;
        properties->maxGridSize[axis] = axis ? 65535 : 2147483647;
    }
    return 0;
}
int cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute) {
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: *value = 8; break;
    case cudaDevAttrMultiProcessorCount: *value = SMS; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = THREADS_PER_SM; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = SHARED_PER_BLOCK; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = SHARED_OPTIN; break;
    case cudaDevAttrMaxGridDimX: *value = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *value = 65535; break;
    default: *value = 0;
    }
    return 0;
}

/* errors: there are none but a lack of memory */
int cudaGetLastError(void) { return 0; }
int cudaPeekAtLastError(void) { return 0; }
const char *cudaGetErrorName(int error) { return error == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : "null CUDA"; }
const char *cudaGetErrorString(int error) { return error == OUT_OF_MEMORY ? "out of memory" : "null CUDA"; }

/* the driver: this file also stands in for libcuda.so.1 */
static int driver_function(void) { return 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    *flags = 0;
    *active = 1;
    (void)device;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context) { return new_handle(context); }
int cuCtxGetCurrent(void **context) { *context = &ranges; return 0; }
int cuCtxSetCurrent(void) { return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetAttribute(int *value) { *value = 0; return 0; }
int cuGetErrorString(int error, const char **text) { *text = "null CUDA"; (void)error; return 0; }
int cuModuleLoad(void **module) { return new_handle(module); }
int cuModuleLoadData(void **module) { return new_handle(module); }
int cuModuleLoadDataEx(void **module) { return new_handle(module); }
int cuModuleUnload(void) { return 0; }
int cuModuleGetFunction(void **function) { return new_handle(function); }
int cuFuncGetAttribute(int *value) { *value = 0; return 0; }
int cuFuncSetAttribute(void) { return 0; }
int cuFuncSetCacheConfig(void) { return 0; }
int cuLinkCreate_v2(void) { return 0; }
int cuLinkAddData_v2(void) { return 0; }
int cuLinkComplete(void) { return 0; }
int cuTensorMapEncodeTiled(void) { return 0; }
int cuPointerGetAttribute(void) { return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks) { *blocks = 2; return 0; }
static int launched(void) { __atomic_add_fetch(&kernels, 1, __ATOMIC_RELAXED); return 0; }
int cuLaunchKernel(void) { return launched(); }
int cuLaunchCooperativeKernel(void) { return launched(); }
int cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version, unsigned long long flags, int *status) {
    *function = strcmp(name, "cuDevicePrimaryCtxGetState") ? (void *)driver_function : (void *)cuDevicePrimaryCtxGetState;
    if (status) *status = 0;
    (void)version, (void)flags;
    return 0;
}

/* streams and events */
int cudaStreamCreate(void **stream) { return new_handle(stream); }
int cudaStreamCreateWithFlags(void **stream) { return new_handle(stream); }
int cudaStreamCreateWithPriority(void **stream) { return new_handle(stream); }
int cudaStreamDestroy(void) { return 0; }
int cudaStreamSynchronize(void) { return 0; }
int cudaStreamQuery(void) { return 0; }
int cudaStreamWaitEvent(void) { return 0; }
int cudaStreamGetPriority(void *stream, int *priority) { *priority = 0; (void)stream; return 0; }
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; (void)stream; return 0; }
int cudaStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id) {
    *status = 0;
    if (id) *id = 0;
    (void)stream;
    return 0;
}
int cudaThreadExchangeStreamCaptureMode(void) { return 0; }
int cudaEventCreate(void **event) { return new_handle(event); }
int cudaEventCreateWithFlags(void **event) { return new_handle(event); }
int cudaEventDestroy(void *event) { free(event); return 0; }
int cudaEventRecord(void) { return 0; }
int cudaEventRecordWithFlags(void) { return 0; }
int cudaEventQuery(void) { return 0; }
int cudaEventSynchronize(void) { return 0; }
int cudaEventElapsedTime(float *milliseconds) { *milliseconds = 0; return 0; }

/* memory */
int cudaMalloc(void **out, size_t size) {
    pthread_mutex_lock(&lock);
    int full = used[current_device] + size > memory();
    *out = full ? NULL : mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!full) {
        used[current_device] += size;
        remember(*out, size, current_device);
    }
    pthread_mutex_unlock(&lock);
    return full ? OUT_OF_MEMORY : 0;
}
int cudaFree(void *pointer) {
    pthread_mutex_lock(&lock);
    Range *range = forget(pointer);
    if (range) {
        used[range->device] -= range->size;
        munmap(range->start, range->size);
        free(range);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
int cudaHostAlloc(void **out, size_t size) {
    *out = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
    pthread_mutex_lock(&lock);
    remember(*out, size, -1);
    pthread_mutex_unlock(&lock);
    return 0;
}
int cudaMallocHost(void **out, size_t size) { return cudaHostAlloc(out, size); }
int cudaFreeHost(void *pointer) {
    pthread_mutex_lock(&lock);
    free(forget(pointer));
    pthread_mutex_unlock(&lock);
    free(pointer);
    return 0;
}
int cudaHostRegister(void) { return 0; }
int cudaHostUnregister(void) { return 0; }
int cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer) {
    memset(attributes, 0, sizeof *attributes);
    pthread_mutex_lock(&lock);
    Range *range = range_of(pointer);
    if (range) {
        attributes->type = range->device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
        attributes->device = range->device < 0 ? 0 : range->device;
        attributes->devicePointer = attributes->hostPointer = (void *)pointer;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
/* What comes from a device is zeros, what goes there is nowhere. Of a whole tensor no page is touched: a checkpoint of a
 * large network would take gigabytes of main memory, for nothing. */
int cudaMemcpy(void *to, const void *from, size_t size, int kind) {
    if (kind == cudaMemcpyDeviceToHost && size <= READ_BYTES) memset(to, 0, size);
    if (kind == cudaMemcpyHostToHost) memcpy(to, from, size);
    return 0;
}
int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind) { return cudaMemcpy(to, from, size, kind); }
int cudaMemcpyPeerAsync(void) { return 0; }
int cudaMemcpyToSymbol(void) { return 0; }
int cudaMemset(void) { return 0; }
int cudaMemsetAsync(void) { return 0; }
int cudaGetSymbolAddress(void **out) { return new_handle(out); }

/* kernels */
int __cudaGetKernel(void **kernel, const void *function) { *kernel = (void *)function; return 0; }
unsigned __cudaPushCallConfiguration(void) { return 0; }
int __cudaPopCallConfiguration(void *grid, void *block, size_t *shared, void **stream) {
    uint32_t ones[3] = {1, 1, 1};
    memcpy(grid, ones, sizeof ones);
    memcpy(block, ones, sizeof ones);
    *shared = 0;
    *stream = NULL;
    return 0;
}
int __cudaLaunchKernel(void) { return launched(); }
int cudaLaunchKernel(void) { return launched(); }
int cudaLaunchKernelExC(void) { return launched(); }
int cudaFuncSetAttribute(void) { return 0; }
int cudaKernelSetAttributeForDevice(void) { return 0; }
int cudaFuncGetAttributes(struct cudaFuncAttributes *attributes) {
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = 80;
    return 0;
}
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks) { *blocks = 2; return 0; }
int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks) { *blocks = 2; return 0; }

/* matrix products */
static int product(void) { __atomic_add_fetch(&products, 1, __ATOMIC_RELAXED); return launched(); }
int cublasCreate_v2(void **handle) { return new_handle(handle); }
int cublasDestroy_v2(void) { return 0; }
int cublasSetStream_v2(void) { return 0; }
int cublasSetWorkspace_v2(void) { return 0; }
int cublasSetMathMode(void) { return 0; }
int cublasGetMathMode(void *handle, int *mode) { *mode = 0; (void)handle; return 0; }
int cublasSetPointerMode_v2(void) { return 0; }
int cublasGetPointerMode_v2(void *handle, int *mode) { *mode = 0; (void)handle; return 0; }
int cublasSgemm_v2(void) { return product(); }
int cublasSgemmEx(void) { return product(); }
int cublasSgemmStridedBatched(void) { return product(); }
int cublasGemmEx(void) { return product(); }
int cublasGemmStridedBatchedEx(void) { return product(); }
int cublasSgemv_v2(void) { return product(); }
int cublasSdot_v2(void) { return product(); }
int cublasDotEx(void) { return product(); }
int cublasLtCreate(void **handle) { return new_handle(handle); }
int cublasLtMatmulDescCreate(void **handle) { return new_handle(handle); }
int cublasLtMatmulDescDestroy(void *handle) { free(handle); return 0; }
int cublasLtMatmulDescSetAttribute(void) { return 0; }
int cublasLtMatrixLayoutCreate(void **handle) { return new_handle(handle); }
int cublasLtMatrixLayoutDestroy(void *handle) { free(handle); return 0; }
int cublasLtMatrixLayoutSetAttribute(void) { return 0; }
int cublasLtMatmulPreferenceCreate(void **handle) { return new_handle(handle); }
int cublasLtMatmulPreferenceDestroy(void *handle) { free(handle); return 0; }
int cublasLtMatmulPreferenceSetAttribute(void) { return 0; }
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference,
                                   int wanted, void *results, int *found) {
    memset(results, 0, 64); /* the first algorithm: no workspace, success */
    *found = wanted > 0;
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    return 0;
}
int cublasLtMatmul(void) { return product(); }
