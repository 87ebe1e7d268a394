// Images and sounds, decoded by the browser.
const MAX_SIDE = 4096;
const MEANS = { imagenet: [[123.675, 116.28, 103.53], [58.395, 57.12, 57.375]] };

// Where an image's lengths are in a shape; `null` if it is that of no image.
function imageAxes({ datatype, shape, layout }) {
  if (isText(datatype) || datatype === 'BOOL' || shape.length !== 4) return null;
  const letters = layout.replace(/[^A-Z]/g, '');
  const fits = (length) => [1, 3].includes(length);
  const named = ['NHWC', 'NCHW'].includes(letters) ? letters : null;
  if (named === 'NHWC' || (!named && fits(shape[3]))) return { first: false, channels: shape[3], height: shape[1], width: shape[2] };
  if (named === 'NCHW' || (!named && fits(shape[1]))) return { first: true, channels: shape[1], height: shape[2], width: shape[3] };
  return null;
}

// Elements of pixels: `data` is RGBA, `how` says the order of channels, their range, and where they stand.
function pixelsToValues(data, count, { channels, first, order, range }) {
  const values = new Float32Array(count * channels);
  const [means, scales] = MEANS[range] ?? [[0, 0, 0], range === 'one' ? [255, 255, 255] : [1, 1, 1]];
  const rgb = [0, 0, 0];
  for (let pixel = 0; pixel < count; pixel++) {
    for (let part = 0; part < 3; part++) rgb[part] = data[4 * pixel + part];
    if (channels === 1) rgb[0] = .299 * rgb[0] + .587 * rgb[1] + .114 * rgb[2];
    for (let channel = 0; channel < channels; channel++) {
      const source = order === 'BGR' && channels === 3 ? 2 - channel : channel;
      const value = (rgb[source] - means[source]) / scales[source];
      values[first ? channel * count + pixel : pixel * channels + channel] = value;
    }
  }
  return values;
}

// Draws a file into a canvas; `sizeOf` says how large, from its own size.
async function drawFile(file, canvas, sizeOf) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is no image that this browser can read`);
  });
  const [width, height] = sizeOf(bitmap);
  Object.assign(canvas, { width, height });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, width, height);
  return context.getImageData(0, 0, width, height);
}

// The elements of an image in the size that a tensor has, or its own where that is open.
async function decodeImage(file, axes, how, canvas) {
  const side = (length, own) => length > 0 ? length : Math.min(own, MAX_SIDE);
  const { data, width, height } = await drawFile(file, canvas,
    (own) => [side(axes.width, own.width), side(axes.height, own.height)]);
  const channels = axes.channels > 0 ? axes.channels : 3;
  const values = pixelsToValues(data, width * height, { ...axes, ...how, channels });
  const shape = axes.first ? [1, channels, height, width] : [1, height, width, channels];
  return { shape, values };
}

// How many samples a step of a sequence takes; `null` if it takes no sound.
function windowOf(signature) {
  const inputs = signature.inputs.filter((input) => input.name !== 'sequence_id');
  if (!signature.stateful || inputs.length !== 1) return null;
  const [{ datatype, least }] = inputs;
  const count = product(least);
  return isFloat(datatype ?? '') && count >= 64 ? count : null;
}

// The samples of a sound file in one channel, at a rate.
async function decodeSound(file, rate) {
  const context = new OfflineAudioContext(1, 1, rate);
  const sound = await context.decodeAudioData(await file.arrayBuffer()).catch(() => {
    throw new Error(`${file.name} is no sound that this browser can read`);
  });
  const samples = new Float32Array(sound.length);
  for (let channel = 0; channel < sound.numberOfChannels; channel++)
    sound.getChannelData(channel).forEach((value, at) => { samples[at] += value / sound.numberOfChannels; });
  return samples;
}

// Cuts samples into steps; the last one is filled up with silence.
function* windows(samples, size) {
  for (let at = 0; at < samples.length; at += size) {
    const step = new Float32Array(size);
    step.set(samples.subarray(at, at + size));
    yield step;
  }
}

// Calls `take` with the samples of the microphone as they come; returns what ends it.
async function listen(rate, take) {
  if (!navigator.mediaDevices)
    throw new Error('Browsers give the microphone to pages over TLS, or of this machine, alone');
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const context = new AudioContext({ sampleRate: rate });
  const source = context.createMediaStreamSource(stream);
  // Its successor needs a script of its own, which the policy of this page does not allow.
  const tap = context.createScriptProcessor(1024, 1, 1);
  tap.onaudioprocess = (event) => take(event.inputBuffer.getChannelData(0).slice());
  source.connect(tap);
  tap.connect(context.destination);
  return () => {
    for (const track of stream.getTracks()) track.stop();
    tap.disconnect();
    context.close();
  };
}
