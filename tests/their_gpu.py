"""Another library that has arrays on the GPU (of tests/cuda/driver.c): memory and a stream of its own, which runs late, DLPack and
__cuda_array_interface__ in both directions. One array is some doubles in C order."""
import ctypes as ct
import os

import numpy as np


class Device(ct.Structure):
    _fields_ = [("type", ct.c_int), ("id", ct.c_int)]


class Dtype(ct.Structure):
    _fields_ = [("code", ct.c_uint8), ("bits", ct.c_uint8), ("lanes", ct.c_uint16)]


class Tensor(ct.Structure):
    _fields_ = [("data", ct.c_void_p), ("device", Device), ("ndim", ct.c_int32), ("dtype", Dtype), ("shape", ct.POINTER(ct.c_int64)),
                ("strides", ct.POINTER(ct.c_int64)), ("offset", ct.c_uint64)]


class Managed(ct.Structure):
    pass


DELETER = ct.CFUNCTYPE(None, ct.POINTER(Managed))
Managed._fields_ = [("major", ct.c_uint32), ("minor", ct.c_uint32), ("context", ct.c_void_p), ("deleter", DELETER),
                    ("flags", ct.c_uint64), ("tensor", Tensor)]

_capsule = ct.pythonapi
_capsule.PyCapsule_New.restype, _capsule.PyCapsule_New.argtypes = ct.py_object, [ct.c_void_p, ct.c_char_p, ct.c_void_p]
_capsule.PyCapsule_GetPointer.restype, _capsule.PyCapsule_GetPointer.argtypes = ct.c_void_p, [ct.py_object, ct.c_char_p]
_capsule.PyCapsule_SetName.argtypes = [ct.py_object, ct.c_char_p]
NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"


class Driver:
    def __init__(self):
        self.cuda = ct.CDLL(os.environ["FRIT_CUDA_LIB"])
        context, self.stream, self.pool = ct.c_void_p(), ct.c_void_p(), ct.c_void_p()
        self.do("cuInit", 0)
        self.do("cuDevicePrimaryCtxRetain", ct.byref(context), 0)
        self.do("cuCtxPushCurrent_v2", context)
        self.do("cuStreamCreate", ct.byref(self.stream), 0)
        self.do("cuMemPoolCreate", ct.byref(self.pool), None)

    def do(self, name, *args):
        assert getattr(self.cuda, name)(*args) == 0, name

    def write(self, address, values):
        values = np.ascontiguousarray(values)
        self.do("cuMemcpyHtoDAsync_v2", ct.c_uint64(address), values.ctypes.data_as(ct.c_void_p), ct.c_size_t(values.nbytes), self.stream)

    def read(self, address, shape, dtype="f8", stream=None):
        out = np.empty(shape, dtype)
        self.do("cuMemcpyDtoHAsync_v2", out.ctypes.data_as(ct.c_void_p), ct.c_uint64(address), ct.c_size_t(out.nbytes), stream or self.stream)
        self.do("cuStreamSynchronize", stream or self.stream)
        return out


class Array:
    """What is written to it comes late: in its stream, when somebody waits for that."""

    def __init__(self, driver, values, readonly=False):
        self.driver, self.shape, self.readonly = driver, np.shape(values), readonly
        self.values = np.asarray(values, "f8")
        address = ct.c_uint64()
        driver.do("cuMemAllocFromPoolAsync", ct.byref(address), ct.c_size_t(max(self.values.nbytes, 8)), driver.pool, driver.stream)
        self.address, self.n_deleted, self.asked, self.kept = address.value, 0, [], None
        driver.write(self.address, self.values)

    def free(self):
        self.driver.do("cuMemFreeAsync", ct.c_uint64(self.address), self.driver.stream)

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append((stream, max_version))
        if stream not in (None, -1):    # that stream waits for ours
            event = ct.c_void_p()
            self.driver.do("cuEventCreate", ct.byref(event), 2)
            self.driver.do("cuEventRecord", event, self.driver.stream)
            self.driver.do("cuStreamWaitEvent", ct.c_void_p(stream), event, 0)
            self.driver.do("cuEventDestroy_v2", event)
        n = max(len(self.shape), 1)

        def deleted(_):
            self.n_deleted += 1
        shape, strides = (ct.c_int64 * n)(*self.shape), (ct.c_int64 * n)(*(s // 8 for s in self.values.strides))
        m = Managed(1, 0, None, DELETER(deleted), int(self.readonly),
                    Tensor(self.address, Device(2, 0), len(self.shape), Dtype(2, 64, 1), shape, strides, 0))
        self.kept = m, shape, strides
        return _capsule.PyCapsule_New(ct.addressof(m), NAME, None)

    def read(self):
        return self.driver.read(self.address, self.shape)


class Described:
    """The same memory by __cuda_array_interface__."""

    def __init__(self, array, **other):
        self.array = array
        self.__cuda_array_interface__ = {"shape": array.shape, "typestr": "<f8", "data": (array.address, array.readonly), "strides": None,
                                         "version": 3, "stream": array.driver.stream.value, **other}


class Taken:
    """What this library gets of another one's array, in its stream."""

    def __init__(self, driver, array, **how):
        self.driver = driver
        self.device = array.__dlpack_device__()
        capsule = array.__dlpack__(stream=how.pop("stream", driver.stream.value), max_version=(1, 0), **how)
        self.managed = Managed.from_address(_capsule.PyCapsule_GetPointer(capsule, NAME))
        _capsule.PyCapsule_SetName(capsule, USED)
        t = self.tensor = self.managed.tensor
        self.shape, self.strides = tuple(t.shape[:t.ndim]), tuple(t.strides[:t.ndim])
        self.address, self.flags = t.data + t.offset, self.managed.flags

    def read(self, dtype="f8"):
        return self.driver.read(self.address, self.shape, dtype)

    def delete(self):
        self.managed.deleter(ct.byref(self.managed))
