// Perfetto's own trace processor, the WebAssembly build that its UI runs in a worker (scripts/fetch_perfetto.sh):
//
//     node trace_processor.mjs FOLDER TRACE 'select …' …
//
// prints one list of rows a query, as JSON. Any error of the trace's or a query's is printed, and the exit code is 1.
import fs from "node:fs";
import path from "node:path";

// Protocol: trace_processor.proto of Perfetto, TraceProcessorRpcStream. Only the fields that are used have names here.
const REQUEST = { append: 1, finalize: 2, query: 3 };
const RPC = { message: 1, seq: 1, request: 2, fatal: 5, append: 101, query: 103, appended: 201, result: 203, finalized: 212 };
const ERROR = { [RPC.appended]: 2, [RPC.result]: 2, [RPC.finalized]: 1 };  // which field of an answer is an error's text
const CELL = { null: 1, integer: 2, real: 3, text: 4, blob: 5 };

const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
};
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint(field * 8 + 2), varint(value.length), value]);

class Reader {
  constructor(data) { this.data = data; this.at = 0; }
  get more() { return this.at < this.data.length; }
  varint() {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.data[this.at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
  }
  take(size) {
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }
  real() { return this.take(8).readDoubleLE(); }
  *fields() {
    while (this.more) {
      const tag = this.varint(), type = tag % 8;
      const value = type === 0 ? this.varint() : this.take(type === 2 ? this.varint() : type === 1 ? 8 : 4);
      yield [Math.floor(tag / 8), value];
    }
  }
}
const fields = (data) => new Reader(data).fields();
const list = (data, read) => {
  const reader = new Reader(data), out = [];
  while (reader.more) out.push(read(reader));
  return out;
};

// What a worker has and its script uses; the script itself runs unchanged. `process` is hidden from it, since it refuses to run in Node.
function start(folder) {
  const self = { location: { href: "" } }, said = [];
  const console = Object.fromEntries(["log", "warn", "error"].map((kind) => [kind, (text) => said.push(text)]));
  class XMLHttpRequest {
    open(_, name) { this.name = name; }
    send() { this.response = fs.readFileSync(path.join(folder, this.name)); }
  }
  const script = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
  new Function("self", "process", "require", "console", "XMLHttpRequest", "WorkerGlobalScope", script)(self, undefined, undefined, console, XMLHttpRequest, {});
  return { self, said };
}

async function open(folder) {
  const { self, said } = start(folder), replies = [];
  const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
  self.onmessage({ data: port });
  await new Promise((done) => setTimeout(done, 0));  // the module is ready a microtask after it was compiled
  let seq = 0;
  return (request, what, ...args) => {
    const message = Buffer.concat([number(RPC.seq, seq++), number(RPC.request, request), ...args]);
    try {
      port.onmessage({ data: new Uint8Array(bytes(RPC.message, message)) });
    } catch (error) {
      throw new Error(`trace processor crashed: ${error.message}\n${said.join("\n")}`);
    }
    const answers = replies.splice(0).flatMap((reply) => [...fields(reply)]).flatMap(([, answer]) => [...fields(answer)]);
    for (const [kind, answer] of answers) {
      if (kind === RPC.fatal) throw new Error(answer.toString());
      if (!(kind in ERROR)) continue;
      for (const [field, text] of fields(answer)) if (field === ERROR[kind] && text.length) throw new Error(`${what}: ${text}`);
    }
    return answers;
  };
}

function rows(answers) {
  const names = [], out = [];
  for (const [, result] of answers.filter(([kind]) => kind === RPC.result)) {
    for (const [field, value] of fields(result)) {
      if (field === 1) names.push(value.toString());
      if (field === 3) cells(value, names, out);
    }
  }
  return out;
}

function cells(batch, names, out) {
  const types = [], integers = [], reals = [], blobs = [];
  let texts = [];
  for (const [field, value] of fields(batch)) {
    if (field === 1) types.push(...list(value, (r) => r.varint()));
    if (field === 2) integers.push(...list(value, (r) => r.varint()));
    if (field === 3) reals.push(...list(value, (r) => r.real()));
    if (field === 4) blobs.push(value.toString("hex"));
    if (field === 5) texts = value.toString().split("\0");
  }
  const of = { [CELL.null]: [], [CELL.integer]: integers, [CELL.real]: reals, [CELL.text]: texts, [CELL.blob]: blobs };
  const at = { [CELL.null]: 0, [CELL.integer]: 0, [CELL.real]: 0, [CELL.text]: 0, [CELL.blob]: 0 };
  for (let i = 0; i < types.length; i += names.length) {
    out.push(Object.fromEntries(names.map((name, c) => [name, of[types[i + c]][at[types[i + c]]++] ?? null])));
  }
}

const [folder, trace, ...queries] = process.argv.slice(2);
try {
  const ask = await open(folder);
  const data = fs.readFileSync(trace), chunk = 16 << 20;
  for (let at = 0; at < data.length; at += chunk) ask(REQUEST.append, trace, bytes(RPC.append, data.subarray(at, at + chunk)));
  ask(REQUEST.finalize, trace);
  console.log(JSON.stringify(queries.map((sql) => rows(ask(REQUEST.query, sql, bytes(RPC.query, bytes(1, Buffer.from(sql))))))));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
