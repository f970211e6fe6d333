// The planner in a worker: Python and Upright's own rooms, loaded once. Messages in, answers out; no other traffic.
//
// in   {kind: "start", base, integrity}   {kind: "file", id, name, file}   {kind: "ask", id, question}
// out  {kind: "thinking", words}   {kind: "progress", step, seconds}   {kind: "ready", seconds}   {kind: "answer", id, answer}   {kind: "failed", id, why}

const DROPPED = "/dropped"; // as in page_answers.py
let integrity = {};
let base = "";
let python = null;
let answer = null;

function get(name) {
  return fetch(base + name, { integrity: integrity[name], credentials: "same-origin" }).then((response) => {
    if (!response.ok) throw new Error(`${name}: ${response.status}`);
    return response;
  });
}

async function wasm(response) {
  const opened = response.body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(opened, { headers: { "Content-Type": "application/wasm" } });
}

async function start() {
  const began = performance.now();
  const progress = (step) => postMessage({ kind: "progress", step, seconds: (performance.now() - began) / 1000 });
  // All at once: the network is the slow part.
  const wanted = {
    "pyodide.asm.wasm": get("pyodide/pyodide.asm.wasm.gz").then(wasm),
    "python_stdlib.zip": get("pyodide/python_stdlib.zip"),
    "pyodide-lock.json": get("pyodide/pyodide-lock.json"),
  };
  const rooms = get("upright.zip").then((response) => response.arrayBuffer());
  const network = self.fetch;
  self.fetch = (url, options) => {
    const name = String(url?.url ?? url).split("/").pop();
    const ours = wanted[name];
    delete wanted[name];
    return ours ?? network(url, options);
  };
  progress("Python");
  const { loadPyodide } = await import(`${base}pyodide/pyodide.mjs`);
  python = await loadPyodide({ indexURL: `${base}pyodide/`, env: { HOME: "/home/visitor", UPRIGHT_HOME: "/home/visitor" } });
  self.fetch = network;
  progress("the catalogue");
  python.unpackArchive(await rooms, "zip", { extractDir: "/site" });
  progress("the planner");
  answer = python.runPython(`
import sys
sys.path.insert(0, "/site")
sys.dont_write_bytecode = True
import gc
gc.freeze()
from upright.app.site.page_answers import answer
answer`);
  postMessage({ kind: "ready", seconds: (performance.now() - began) / 1000 });
}

// A file of many gigabytes is mounted, not copied: Python reads its header where it is.
function drop(name, file) {
  const { FS } = python;
  if (FS.analyzePath(DROPPED).exists) FS.unmount(DROPPED);
  else FS.mkdir(DROPPED);
  FS.mount(FS.filesystems.WORKERFS, { files: [new File([file], name)] }, DROPPED);
  return `${DROPPED}/${name}`;
}

self.onmessage = async ({ data }) => {
  try {
    if (data.kind === "start") {
      ({ base, integrity } = data);
      await start();
    } else if (data.kind === "file") {
      postMessage({ kind: "answer", id: data.id, answer: { path: drop(data.name, data.file) } });
    } else {
      postMessage({ kind: "answer", id: data.id, answer: JSON.parse(answer(JSON.stringify(data.question), (words) => postMessage({ kind: "thinking", words }))) });
    }
  } catch (error) {
    postMessage({ kind: "failed", id: data.id ?? null, why: String(error?.message ?? error) });
  }
};
