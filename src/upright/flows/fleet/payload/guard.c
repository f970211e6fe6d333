/* Client key -> worker key, inside the gateway: what makes the two keys different ones.
 *
 * Guard: smg 1.13 hands a caller's Authorization on to the engine, and only a caller without one is given the worker's
 * key (model_gateway/src/routers/common/header_utils.rs, extract_auth_header). Its middleware runs before its own check
 * of keys, so: whoever shows the client key, under `authorization` or `x-api-key`, goes on with the worker key, which
 * is the only one that smg and the engines accept. Without this middleware nobody gets in.
 *
 * The interface is smg's crates/wasm/src/interface/spec.wit, in the canonical layout of the component model: a string
 * and a list are a pointer and a length. An instance lives for one request, so memory is only taken, never given back.
 * scripts/make-guard compiles this, wraps it by guard.wat and writes it into __main__.py, which puts the keys in.
 */
typedef unsigned int u32;
typedef unsigned char u8;

typedef struct { const u8 *text; u32 length; } String;
typedef struct { String name; String value; } Header;
typedef struct { const void *items; u32 count; } List;

/* variant action { continue, reject(u16), modify(modify-action) }; modify-action has five fields. */
typedef struct {
  u8 tag;
  u8 padding[3];
  struct { u8 present; u8 padding; unsigned short status; } status;
  List headers_set;
  List headers_add;
  List headers_remove;
  struct { u8 present; u8 padding[3]; List bytes; } body_replace;
} Action;
enum { CONTINUE = 0, MODIFY = 2 };

/* __main__.py finds these by their marks and writes each key's length and `Bearer KEY` over them. */
typedef union {
  u8 mark[272];
  struct { u32 length; u8 padding[12]; u8 bearer[256]; };
} Key;
static volatile Key client_key = {.mark = "UPRIGHT-CLIENT-KEY"};
static volatile Key worker_key = {.mark = "UPRIGHT-WORKER-KEY"};

static const String AUTHORIZATION = {(const u8 *)"authorization", 13};
static const String X_API_KEY = {(const u8 *)"x-api-key", 9};
static const u32 BEARER = 7; /* the length of `Bearer ` */

static Action action;
static Header bearer_of_the_worker;

/* Takes as long whatever differs. */
static int same(String text, const volatile u8 *word, u32 length) {
  u8 differs = 0;
  if (text.length != length) return 0;
  for (u32 at = 0; at < length; at++) differs |= text.text[at] ^ word[at];
  return !differs;
}

static int is_client(const Header *header) {
  if (same(header->name, AUTHORIZATION.text, AUTHORIZATION.length))
    return same(header->value, client_key.bearer, client_key.length);
  if (same(header->name, X_API_KEY.text, X_API_KEY.length))
    return same(header->value, client_key.bearer + BEARER, client_key.length - BEARER);
  return 0;
}

static const Action *as_worker(void) {
  bearer_of_the_worker.name = AUTHORIZATION;
  bearer_of_the_worker.value.text = (const u8 *)worker_key.bearer;
  bearer_of_the_worker.value.length = worker_key.length;
  action.tag = MODIFY;
  action.headers_set.items = &bearer_of_the_worker;
  action.headers_set.count = 1;
  action.headers_remove.items = &X_API_KEY;
  action.headers_remove.count = 1;
  return &action;
}

/* Whoever shows no client key goes on unchanged, and smg refuses them. */
__attribute__((export_name("on-request"))) const Action *on_request(
    const u8 *method, u32 method_length, const u8 *path, u32 path_length, const u8 *query, u32 query_length,
    const Header *headers, u32 count, const u8 *body, u32 body_length, const u8 *request_id, u32 request_id_length,
    unsigned long long now_epoch_ms) {
  for (u32 at = 0; at < count; at++)
    if (is_client(&headers[at])) return as_worker();
  return &action;
}

__attribute__((export_name("on-response"))) const Action *on_response(
    u32 status, const Header *headers, u32 count, const u8 *body, u32 body_length) {
  return &action;
}

extern u8 __heap_base;
static u32 taken;

__attribute__((export_name("realloc"))) void *take(void *old, u32 was, u32 align, u32 size) {
  u32 start = ((taken ? taken : (u32)&__heap_base) + 7) & ~7u, end = start + size;
  u32 have = (u32)__builtin_wasm_memory_size(0) << 16;
  if (end < start) __builtin_trap();
  if (end > have && __builtin_wasm_memory_grow(0, ((end - have) >> 16) + 1) == (unsigned long)-1) __builtin_trap();
  taken = end;
  return (void *)start;
}
