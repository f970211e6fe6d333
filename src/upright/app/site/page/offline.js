// The service worker: what the page needs is kept, so that the second visit needs no network. Same origin only.
const VERSION = "{{version}}";
const FILES = "{{files}}";

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const older = (names) => Promise.all(names.filter((name) => name !== VERSION).map((name) => caches.delete(name)));
  event.waitUntil(caches.keys().then(older).then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== self.location.origin) return;
  event.respondWith(answer(request));
});

// A new page is looked for first, since it names the hashes of everything else; what it names is kept.
async function answer(request) {
  const cache = await caches.open(VERSION);
  if (request.mode === "navigate") {
    return fetch(request).catch(() => cache.match("./"));
  }
  const kept = await cache.match(request, { ignoreSearch: true });
  if (kept) return kept;
  const response = await fetch(request);
  if (response.ok) cache.put(request, response.clone());
  return response;
}
