// The page of a servable: its figures, and requests to it.
const about = byId('about'), trial = byId('try');
const only = document.body.dataset.query;

follow(only, (state) => {
  const [entry] = state.servables;
  if (!entry) return;
  const changed = byId('changed');
  changed.hidden = entry.revision === document.body.dataset.revision;
  byId('condition').className = `state ${entry.condition}`;
  byId('condition').textContent = entry.condition;
  showRecent(byId('charts'), entry.recent, past.of.get(entry.name));
  showCounts(document.body, entry, state.bounds_us);
  showNodes(about, entry.nodes);
});
enliven(document);

if (trial) begin(JSON.parse(trial.dataset.signature));

function begin(signature) {
  const { rest, grpc } = trial.dataset, form = byId('request');
  const addresses = { rest, grpc, hasTls: rest.startsWith('https:'), hasGrpcTls: 'grpcTls' in trial.dataset };
  const size = windowOf(signature), streams = signature.kind === 'graph';
  const answer = byId('answer'), events = byId('events'), status = byId('status');
  let labels = () => [], running = null, sequence = null, steps = null, sound = null;

  const fields = signature.inputs.map((input) => new Field(input, () => describe()));
  byId('fields').append(...fields.map((field) => field.place));
  const base = { model: signature.name, outputs: signature.outputs, stateful: signature.stateful, streams };
  const gather = async () => ({ ...base, inputs: await Promise.all(fields.map((field) => field.gather())) });

  // Shows the request as lines; `request` stays the newest one.
  let described = 0;
  async function describe() {
    const turn = described += 1;
    const [curl, python, save] = ['curl', 'python', 'save'].map(byId);
    try {
      const request = await gather();
      if (turn !== described) return;
      if (signature.stateful) request.parameters = { sequence_start: true, sequence_end: true };
      curl.textContent = curlLine(request, rest);
      python.textContent = pythonLines({ ...request, sound }, addresses);
      save.hidden = !isSaved(request);
      byId('hint').textContent = !save.hidden ? `curl sends the file ${bodyFile(signature.name)}: save it first.`
        : sound ? `curl sends one step; Python sends all of ${sound.file}.` : '';
    } catch (error) {
      if (turn !== described) return;
      byId('hint').textContent = error.message;
      curl.textContent = python.textContent = '';
      save.hidden = true;
    }
  }

  // Runs something that can be stopped, and says how it went.
  async function run(work) {
    running?.abort();
    const control = running = new AbortController();
    const began = performance.now();
    form.classList.add('busy');
    byId('stop').hidden = false;
    status.className = 'soft';
    status.textContent = 'Waiting for the answer…';
    try {
      const text = await work(control.signal);
      const ms = performance.now() - began;
      status.textContent = `${text} in ${took(1000 * ms)}, as seen from this browser.`;
    } catch (error) {
      const isStopped = error.name === 'AbortError';
      status.className = isStopped ? 'soft' : 'failure';
      status.textContent = isStopped ? 'Stopped.' : error.message;
    } finally {
      if (running === control) {
        running = null;
        form.classList.remove('busy');
        byId('stop').hidden = true;
      }
    }
  }

  const show = ({ outputs }) => {
    const own = outputs.filter((output) => output.name !== 'sequence_id' || !signature.stateful);
    answer.replaceChildren(...own.map((output) => outputOf(output, labels(output.name))));
  };

  async function once(signal) {
    const request = await gather();
    if (streams) return stream(request, signal);
    show(await sendInfer(request, signal));
    return 'Answered';
  }

  async function stream(request, signal) {
    let count = 0;
    events.replaceChildren();
    events.hidden = false;
    await sendStream(request, (event) => {
      count += 1;
      const line = make('li', event.error === undefined ? '' : 'failed', eventText(event));
      // A stream may have no end; the newest lines are what is looked at.
      if (events.childElementCount >= 1000) events.firstChild.remove();
      events.append(line);
      events.scrollTop = events.scrollHeight;
      status.textContent = `${whole(count)} so far`;
    }, signal);
    return `${whole(count)} event${count === 1 ? '' : 's'}`;
  }

  const fresh = () => { steps = new Steps(byId('steps')); };

  // A step of what was filled in.
  async function step(signal, isLast) {
    if (!sequence?.isLive) {
      sequence = new Sequence(base, null);
      fresh();
    }
    sequence.signal = signal;
    const { inputs } = await gather();
    const result = await sequence.step(inputs, isLast);
    steps.add(result.outputs);
    show(result);
    return isLast ? 'The last step was answered' : 'A step was answered';
  }

  // Sends windows of samples as the steps of a new sequence.
  async function play(parts, signal) {
    const own = new Sequence(base, signal), [input] = signature.inputs;
    const shape = input.least;
    fresh();
    const step = (values, isLast) => own.step([{ ...input, shape, values }], isLast);
    let last = null;
    try {
      for await (const values of parts) {
        if (last) steps.add((await step(last, false)).outputs);
        last = values;
      }
      if (!last) throw new Error('There is no sound');
      const result = await step(last, true);
      steps.add(result.outputs);
      show(result);
    } finally {
      // Whoever stops it leaves no sequence behind.
      own.signal = undefined;
      if (own.isLive) step(last, true).catch(() => {});
    }
    return `${whole(steps.count)} steps were answered`;
  }

  const rate = () => Math.min(Math.max(Number(byId('rate').value) || 16000, 3000), 192000);

  function playFile(file, label = file?.name) {
    if (!file) return;
    byId('heard').textContent = label;
    sound = { file: file.name, size, rate: rate() };
    describe();
    run(async (signal) => play(windows(await decodeSound(file, rate()), size), signal));
  }

  // Windows of the microphone, as they come, until it is stopped.
  async function* spoken(signal) {
    const queue = [];
    let wake = () => {}, rest = new Float32Array(0);
    const end = await listen(rate(), (samples) => {
      const all = new Float32Array(rest.length + samples.length);
      all.set(rest);
      all.set(samples, rest.length);
      const count = Math.floor(all.length / size);
      for (let at = 0; at < count; at++) queue.push(all.slice(at * size, (at + 1) * size));
      rest = all.slice(count * size);
      wake();
    });
    byId('microphone').textContent = 'Stop listening';
    try {
      while (listening && !signal.aborted) {
        if (queue.length * size > 10 * rate()) throw new Error('The answers come more slowly than the sound');
        if (queue.length > 0) yield queue.shift();
        else await new Promise((resolve) => { wake = resolve; setTimeout(resolve, 200); });
      }
    } finally {
      end();
      byId('microphone').textContent = 'Use the microphone';
    }
  }
  let listening = false;
  byId('microphone').addEventListener('click', () => {
    listening = !listening;
    if (listening) run((signal) => play(spoken(signal), signal)).finally(() => { listening = false; });
  });

  form.addEventListener('submit', (event) => {
    event.preventDefault();
    run(signature.stateful ? (signal) => step(signal, false) : once);
  });
  byId('end').addEventListener('click', () => run((signal) => step(signal, true)));
  byId('stop').addEventListener('click', () => running?.abort());
  byId('save').addEventListener('click', async () => {
    const request = await gather();
    if (signature.stateful) request.parameters = { sequence_start: true, sequence_end: true };
    const link = make('a');
    link.href = URL.createObjectURL(inferBody(request).blob);
    link.download = bodyFile(signature.name);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
  byId('end').hidden = !signature.stateful;
  byId('send').textContent = signature.stateful ? 'Send a step' : 'Send';
  if (size) {
    byId('sound').hidden = false;
    byId('sound-file').addEventListener('change', (event) => playFile(event.target.files[0], ''));
    acceptDrops(byId('sound'), playFile);
  }
  fetch(pathOf(signature.name, '').slice(0, -1)).then((found) => found.json()).then((facts) => {
    const all = facts.properties ?? {};
    labels = (output) => (all[`labels.${output}`] ?? all.labels)?.trim().split('\n') ?? [];
  }).catch(() => {});
  form.hidden = false;
  describe();
}
