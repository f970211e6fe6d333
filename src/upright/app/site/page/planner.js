// Questions -> answers of the worker. One at a time; of questions with the same name only the newest waits.

export class Planner {
  constructor(told) {
    this.told = told;
    this.asked = new Map();
    this.waiting = [];
    this.next = 1;
    this.busy = false;
    this.ready = false;
  }

  async start(integrity) {
    const base = new URL("./", document.baseURI).href;
    // A worker from a blob has this page's policy; one from an address would have none of its own.
    const source = await fetch("worker.js", { integrity: integrity["worker.js"] }).then((response) => response.text());
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(address, { type: "module" });
    this.worker.onmessage = ({ data }) => this.heard(data);
    this.worker.onerror = (event) => this.told({ kind: "failed", why: event.message || "the worker did not start" });
    this.worker.postMessage({ kind: "start", base, integrity });
  }

  ask(question, name = question.ask) {
    return this.post({ kind: "ask", question }, name);
  }

  drop(name, file) {
    return this.post({ kind: "file", name, file }, "file");
  }

  post(message, name) {
    return new Promise((resolve, reject) => {
      this.waiting = this.waiting.filter((other) => other.name !== name || other.reject(new Superseded()));
      this.waiting.push({ message, name, resolve, reject });
      this.go();
    });
  }

  go() {
    if (!this.ready || this.busy || !this.waiting.length) return;
    const { message, resolve, reject } = this.waiting.shift();
    const id = this.next++;
    this.asked.set(id, { resolve, reject });
    this.busy = true;
    this.worker.postMessage({ ...message, id });
  }

  heard(data) {
    if (data.kind === "ready") this.ready = true;
    const asked = data.id ? this.asked.get(data.id) : null;
    if (asked) {
      this.asked.delete(data.id);
      this.busy = false;
      if (data.kind === "answer") asked.resolve(data.answer);
      else asked.reject(new Error(data.why));
    } else {
      this.told(data);
    }
    this.go();
  }
}

export class Superseded extends Error {}
