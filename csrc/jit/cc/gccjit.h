/* jit/cc/gccjit.h -- the part of libgccjit's ABI that frit-cc uses, as a table filled by dlsym.
 *
 * Declared by us from the library's documentation (types are opaque there); its header is not
 * used, so nothing is needed at build time and a machine without the library only loses speed. */
#ifndef FR_JIT_CC_GCCJIT_H
#define FR_JIT_CC_GCCJIT_H

typedef struct gj_context  gj_context;
typedef struct gj_object   gj_object;
typedef struct gj_location gj_location;
typedef struct gj_type     gj_type;
typedef struct gj_field    gj_field;
typedef struct gj_function gj_function;
typedef struct gj_block    gj_block;
typedef struct gj_rvalue   gj_rvalue;
typedef struct gj_lvalue   gj_lvalue;
typedef struct gj_param    gj_param;
typedef struct gj_asm      gj_asm;

enum { GJ_STR_PROGNAME };
enum { GJ_INT_OPTIMIZATION_LEVEL };
enum { GJ_OUTPUT_ASSEMBLER, GJ_OUTPUT_OBJECT, GJ_OUTPUT_DYNAMIC_LIBRARY };
enum { GJ_VOID, GJ_VOID_PTR, GJ_BOOL, GJ_CHAR, GJ_FLOAT = 14, GJ_DOUBLE = 15 };
enum { GJ_FUNCTION_EXPORTED, GJ_FUNCTION_INTERNAL, GJ_FUNCTION_IMPORTED };
enum { GJ_GLOBAL_EXPORTED, GJ_GLOBAL_INTERNAL, GJ_GLOBAL_IMPORTED };
enum { GJ_MINUS, GJ_BITWISE_NEGATE, GJ_LOGICAL_NEGATE, GJ_ABS };
enum { GJ_PLUS, GJ_SUB, GJ_MULT, GJ_DIVIDE, GJ_MODULO, GJ_AND, GJ_XOR, GJ_OR, GJ_LOGICAL_AND,
       GJ_LOGICAL_OR, GJ_LSHIFT, GJ_RSHIFT };
enum { GJ_EQ, GJ_NE, GJ_LT, GJ_LE, GJ_GT, GJ_GE };

/* FUNC(result, name, arguments): what must be there; gcc_jit_<name> is looked up. */
#define FR_GCCJIT_FUNCS(FUNC)                                                                      \
    FUNC(gj_context *, context_acquire, (void))                                                    \
    FUNC(void, context_release, (gj_context *))                                                    \
    FUNC(void, context_set_str_option, (gj_context *, int, const char *))                          \
    FUNC(void, context_set_int_option, (gj_context *, int, int))                                   \
    FUNC(void, context_add_command_line_option, (gj_context *, const char *))                      \
    FUNC(void, context_add_driver_option, (gj_context *, const char *))                            \
    FUNC(void, context_compile_to_file, (gj_context *, int, const char *))                         \
    FUNC(const char *, context_get_first_error, (gj_context *))                                    \
    FUNC(gj_type *, context_get_type, (gj_context *, int))                                         \
    FUNC(gj_type *, context_get_int_type, (gj_context *, int n_bytes, int is_signed))              \
    FUNC(gj_type *, type_get_pointer, (gj_type *))                                                 \
    FUNC(gj_type *, type_get_const, (gj_type *))                                                   \
    FUNC(gj_type *, type_get_vector, (gj_type *, size_t n_units))                                  \
    FUNC(gj_type *, type_get_aligned, (gj_type *, size_t n_bytes))                                 \
    FUNC(gj_type *, context_new_array_type, (gj_context *, gj_location *, gj_type *, int n))       \
    FUNC(gj_param *, context_new_param, (gj_context *, gj_location *, gj_type *, const char *))    \
    FUNC(gj_rvalue *, param_as_rvalue, (gj_param *))                                               \
    FUNC(gj_lvalue *, param_as_lvalue, (gj_param *))                                               \
    FUNC(gj_function *, context_new_function,                                                      \
         (gj_context *, gj_location *, int kind, gj_type *, const char *, int n, gj_param **,      \
          int variadic))                                                                           \
    FUNC(gj_function *, context_get_builtin_function, (gj_context *, const char *))                \
    FUNC(gj_rvalue *, function_get_address, (gj_function *, gj_location *))                        \
    FUNC(gj_lvalue *, function_new_local, (gj_function *, gj_location *, gj_type *, const char *)) \
    FUNC(gj_block *, function_new_block, (gj_function *, const char *))                            \
    FUNC(void, block_add_eval, (gj_block *, gj_location *, gj_rvalue *))                           \
    FUNC(void, block_add_assignment, (gj_block *, gj_location *, gj_lvalue *, gj_rvalue *))        \
    FUNC(void, block_end_with_conditional,                                                         \
         (gj_block *, gj_location *, gj_rvalue *, gj_block *yes, gj_block *no))                    \
    FUNC(void, block_end_with_jump, (gj_block *, gj_location *, gj_block *))                       \
    FUNC(void, block_end_with_void_return, (gj_block *, gj_location *))                            \
    FUNC(gj_asm *, block_add_extended_asm, (gj_block *, gj_location *, const char *))              \
    FUNC(void, extended_asm_set_volatile_flag, (gj_asm *, int))                                    \
    FUNC(void, extended_asm_add_output_operand,                                                    \
         (gj_asm *, const char *name, const char *constraint, gj_lvalue *))                        \
    FUNC(void, extended_asm_add_input_operand,                                                     \
         (gj_asm *, const char *name, const char *constraint, gj_rvalue *))                        \
    FUNC(void, extended_asm_add_clobber, (gj_asm *, const char *))                                 \
    FUNC(gj_lvalue *, context_new_global,                                                          \
         (gj_context *, gj_location *, int kind, gj_type *, const char *))                         \
    FUNC(gj_lvalue *, global_set_initializer_rvalue, (gj_lvalue *, gj_rvalue *))                   \
    FUNC(gj_rvalue *, context_new_array_constructor,                                               \
         (gj_context *, gj_location *, gj_type *, size_t n, gj_rvalue **))                         \
    FUNC(gj_rvalue *, lvalue_as_rvalue, (gj_lvalue *))                                             \
    FUNC(gj_rvalue *, lvalue_get_address, (gj_lvalue *, gj_location *))                            \
    FUNC(gj_lvalue *, rvalue_dereference, (gj_rvalue *, gj_location *))                            \
    FUNC(gj_lvalue *, context_new_array_access,                                                    \
         (gj_context *, gj_location *, gj_rvalue *, gj_rvalue *index))                             \
    FUNC(gj_rvalue *, context_new_rvalue_from_long, (gj_context *, gj_type *, long))               \
    FUNC(gj_rvalue *, context_new_rvalue_from_double, (gj_context *, gj_type *, double))           \
    FUNC(gj_rvalue *, context_new_rvalue_from_vector,                                              \
         (gj_context *, gj_location *, gj_type *, size_t n, gj_rvalue **))                         \
    FUNC(gj_rvalue *, context_new_unary_op,                                                        \
         (gj_context *, gj_location *, int op, gj_type *, gj_rvalue *))                            \
    FUNC(gj_rvalue *, context_new_binary_op,                                                       \
         (gj_context *, gj_location *, int op, gj_type *, gj_rvalue *, gj_rvalue *))               \
    FUNC(gj_rvalue *, context_new_comparison,                                                      \
         (gj_context *, gj_location *, int op, gj_rvalue *, gj_rvalue *))                          \
    FUNC(gj_rvalue *, context_new_call,                                                            \
         (gj_context *, gj_location *, gj_function *, int n, gj_rvalue **))                        \
    FUNC(gj_rvalue *, context_new_cast, (gj_context *, gj_location *, gj_rvalue *, gj_type *))     \
    FUNC(gj_rvalue *, context_new_bitcast, (gj_context *, gj_location *, gj_rvalue *, gj_type *))

struct fr_gccjit {
#define FR_GCCJIT_FIELD(result, name, args) result (*name) args;
    FR_GCCJIT_FUNCS(FR_GCCJIT_FIELD)
#undef FR_GCCJIT_FIELD
    /* Newer than the rest; NULL where the library lacks them. */
    void (*context_set_bool_print_errors_to_stderr)(gj_context *, int);
    void (*lvalue_set_alignment)(gj_lvalue *, unsigned n_bytes);
    int  (*version_major)(void);
};

#endif
