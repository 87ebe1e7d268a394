// Requests over KServe's REST API, and what comes back.
//
// An input is { name, datatype, shape, values }, and a file that is sent as it is has `bytes` and `file` instead of
// values. Datatypes of graphs are not known: `datatype` is null, and the values speak for themselves.
const MAX_JSON_ELEMENTS = 4096;
const LENGTH = 'Inference-Header-Content-Length';

const isSmall = (input) => input.values !== undefined && input.values.length <= MAX_JSON_ELEMENTS
  && !HALVES.includes(input.datatype);

// Of what has no form in JSON the answer is binary.
const isBinary = (outputs) => (outputs ?? []).some((output) => HALVES.includes(output.datatype));

const pathOf = (model, verb) => `/v2/models/${encodeURIComponent(model)}/${verb}`;

// Head and body of a request: JSON, or if that would be long or cannot be, JSON with binary data behind it.
function inferBody({ inputs, outputs, parameters }) {
  const described = ({ name, datatype, shape }) => ({ name, shape, datatype });
  const settings = { ...parameters, ...(isBinary(outputs) && { binary_data_output: true }) };
  const extra = Object.keys(settings).length > 0 ? { parameters: settings } : {};
  if (inputs.every(isSmall)) {
    const tensors = inputs.map((input) => ({ ...described(input), data: Array.from(input.values) }));
    return { headers: { 'Content-Type': 'application/json' }, text: JSON.stringify({ inputs: tensors, ...extra }) };
  }
  const blobs = inputs.map((input) => toBytes(input.datatype, input.bytes ? [input.bytes] : input.values));
  const tensors = inputs.map((input, place) =>
    ({ ...described(input), parameters: { binary_data_size: blobs[place].length } }));
  const json = new TextEncoder().encode(JSON.stringify({ inputs: tensors, ...extra }));
  return {
    headers: { 'Content-Type': 'application/octet-stream', [LENGTH]: String(json.length) },
    blob: new Blob([json, ...blobs]),
  };
}

// The body for the generate extension, in which inputs are members.
function generateBody({ inputs, parameters }) {
  const body = {};
  for (const { name, values, bytes } of inputs)
    body[name] = bytes ? { b64: base64(bytes) } : values.length === 1 ? values[0] : Array.from(values);
  return JSON.stringify({ ...body, ...parameters });
}

function base64(bytes) {
  let text = '';
  for (let at = 0; at < bytes.length; at += 0x8000)
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

// Reads the outputs of an answer, whose binary data stands behind its JSON in the order of the outputs.
function readInfer(bytes, length) {
  const json = JSON.parse(new TextDecoder().decode(length === null ? bytes : bytes.subarray(0, length)));
  let at = length ?? bytes.length;
  const outputs = json.outputs.map(({ name, datatype, shape, data, parameters }) => {
    const size = parameters?.binary_data_size;
    if (size === undefined) return { name, datatype, shape, values: flat(data ?? []).values };
    at += size;
    return { name, datatype, shape, values: fromBytes(datatype, bytes.subarray(at - size, at)) };
  });
  return { outputs, parameters: json.parameters ?? {}, version: json.model_version };
}

async function errorOf(response) {
  const text = await response.text();
  let said = text;
  try { said = JSON.parse(text).error ?? text; } catch { /* It is what it is. */ }
  return new Error(`${response.status}: ${said}`);
}

async function sendInfer(request, signal) {
  const { headers, text, blob } = inferBody(request);
  const response = await fetch(pathOf(request.model, 'infer'),
    { method: 'POST', headers, body: text ?? blob, signal });
  if (!response.ok) throw await errorOf(response);
  const length = response.headers.get(LENGTH);
  const bytes = new Uint8Array(await response.arrayBuffer());
  return readInfer(bytes, length === null ? null : Number(length));
}

// Takes server-sent events out of a text; returns their objects, and what is left of the text.
function takeEvents(text) {
  const parts = text.split('\n\n'), rest = parts.pop();
  const lines = parts.flatMap((part) => part.split('\n')).filter((line) => line.startsWith('data: '));
  return { events: lines.map((line) => JSON.parse(line.slice(6))), rest };
}

// Sends a request to a stream; `take` gets the object of each event as it comes.
async function sendStream(request, take, signal) {
  const response = await fetch(pathOf(request.model, 'generate_stream'), {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: generateBody(request), signal,
  });
  if (!response.ok) throw await errorOf(response);
  const decoder = new TextDecoder(), reader = response.body.getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const { events, rest } = takeEvents(text + decoder.decode(value, { stream: true }));
    text = rest;
    events.forEach(take);
  }
}
