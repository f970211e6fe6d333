;; Client key -> worker key, inside the gateway: what makes the two keys different ones.
;;
;; Guard: smg 1.13 hands a caller's Authorization on to the engine, and only a caller without one is given the worker's
;; key (model_gateway/src/routers/common/header_utils.rs, extract_auth_header). Its middleware runs before its own check
;; of keys, so: whoever shows the client key, under `authorization` or `x-api-key`, goes on with the worker key, which is
;; the only one that smg and the engines accept. Without this middleware nobody gets in.
;;
;; The interface is smg's crates/wasm/src/interface/spec.wit. An instance lives for one request, so memory is only taken.
;; scripts/make-guard assembles this into payload/__main__.py, which puts the keys in.
(component
  (core module $guard
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 4096))
    ;; 0: the action. 64: the header to set (authorization, worker key). 80: the names to remove (x-api-key).
    (data (i32.const 64) "\00\01\00\00\0d\00\00\00\00\04\00\00\00\00\00\00")
    (data (i32.const 80) "\20\01\00\00\09\00\00\00")
    (data (i32.const 256) "authorization")
    (data (i32.const 288) "x-api-key")
    ;; 496 and 1008: a length in 16 bytes, then `Bearer KEY` in 256.
    (data (i32.const 496) "UPRIGHT-CLIENT-KEY@ZEROS@")
    (data (i32.const 1008) "UPRIGHT-WORKER-KEY@ZEROS@")
    (func (export "realloc") (param $old i32) (param $was i32) (param $align i32) (param $size i32) (result i32)
      (local $at i32) (local $end i32) (local $have i32)
      (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (local.set $end (i32.add (local.get $at) (local.get $size)))
      (local.set $have (i32.shl (memory.size) (i32.const 16)))
      (if (i32.gt_u (local.get $end) (local.get $have))
        (then (drop (memory.grow
          (i32.add (i32.const 1) (i32.shr_u (i32.sub (local.get $end) (local.get $have)) (i32.const 16)))))))
      (global.set $free (local.get $end))
      (local.get $at))
    ;; Takes as long whatever differs.
    (func $same (param $text i32) (param $length i32) (param $word i32) (param $of i32) (result i32)
      (local $differs i32)
      (if (i32.ne (local.get $length) (local.get $of)) (then (return (i32.const 0))))
      (block $done
        (loop $next
          (br_if $done (i32.eqz (local.get $of)))
          (local.set $of (i32.sub (local.get $of) (i32.const 1)))
          (local.set $differs (i32.or (local.get $differs) (i32.xor
            (i32.load8_u (i32.add (local.get $text) (local.get $of)))
            (i32.load8_u (i32.add (local.get $word) (local.get $of))))))
          (br $next)))
      (i32.eqz (local.get $differs)))
    (func (export "on-request")
      (param i32 i32 i32 i32 i32 i32) (param $headers i32) (param $count i32) (param i32 i32 i32 i32 i64) (result i32)
      (local $skip i32)
      (block $stranger
        (loop $next
          (br_if $stranger (i32.eqz (local.get $count)))
          (local.set $count (i32.sub (local.get $count) (i32.const 1)))
          (local.set $skip (i32.const -1))
          (if (call $same (i32.load (local.get $headers)) (i32.load offset=4 (local.get $headers))
                (i32.const 256) (i32.const 13))
            (then (local.set $skip (i32.const 0))))
          (if (call $same (i32.load (local.get $headers)) (i32.load offset=4 (local.get $headers))
                (i32.const 288) (i32.const 9))
            (then (local.set $skip (i32.const 7))))  ;; without `Bearer `
          (if (i32.ge_s (local.get $skip) (i32.const 0))
            (then (if (call $same (i32.load offset=8 (local.get $headers)) (i32.load offset=12 (local.get $headers))
                  (i32.add (i32.const 512) (local.get $skip))
                  (i32.sub (i32.load (i32.const 496)) (local.get $skip)))
              (then
                (i32.store8 (i32.const 0) (i32.const 2))                   ;; modify:
                (i32.store (i32.const 76) (i32.load (i32.const 1008)))     ;; the header's length
                (i32.store (i32.const 8) (i32.const 64))                   ;; headers-set
                (i32.store (i32.const 12) (i32.const 1))
                (i32.store (i32.const 24) (i32.const 80))                  ;; headers-remove
                (i32.store (i32.const 28) (i32.const 1))
                (return (i32.const 0))))))
          (local.set $headers (i32.add (local.get $headers) (i32.const 16)))
          (br $next)))
      (i32.const 0))  ;; continue, and be refused
    (func (export "on-response") (param i32 i32 i32 i32 i32) (result i32) (i32.const 0)))
  (core instance $inside (instantiate $guard))
  (type $header_ (record (field "name" string) (field "value" string)))
  (export $header "header" (type $header_))
  (type $request_ (record (field "method" string) (field "path" string) (field "query" string)
    (field "headers" (list $header)) (field "body" (list u8)) (field "request-id" string) (field "now-epoch-ms" u64)))
  (export $request "request" (type $request_))
  (type $response_ (record (field "status" u16) (field "headers" (list $header)) (field "body" (list u8))))
  (export $response "response" (type $response_))
  (type $modify_ (record (field "status" (option u16)) (field "headers-set" (list $header))
    (field "headers-add" (list $header)) (field "headers-remove" (list string)) (field "body-replace" (option (list u8)))))
  (export $modify "modify-action" (type $modify_))
  (type $action_ (variant (case "continue") (case "reject" u16) (case "modify" $modify)))
  (export $action "action" (type $action_))
  (func $on_request (param "req" $request) (result $action)
    (canon lift (core func $inside "on-request")
      (memory (core memory $inside "memory")) (realloc (core func $inside "realloc"))))
  (func $on_response (param "resp" $response) (result $action)
    (canon lift (core func $inside "on-response")
      (memory (core memory $inside "memory")) (realloc (core func $inside "realloc"))))
  (instance $requests (export "on-request" (func $on_request)))
  (instance $responses (export "on-response" (func $on_response)))
  (export "smg:gateway/middleware-on-request" (instance $requests))
  (export "smg:gateway/middleware-on-response" (instance $responses)))
