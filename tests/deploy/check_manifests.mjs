// Checks manifests against schemas and rules that others wrote; what refers to what is the business of
// manifest_rules.py.
//
//   node check_manifests.mjs FILE
//
// Input:  {"name": [document, ...], ...} as JSON
// Output: {"name": ["Kind/name: fault", ...], ...} as JSON
//
// Schemas: the packages kubernetes-models, @kubernetes-models/cert-manager and @kubernetes-models/prometheus-operator.
// Rules: @monokle/validation, the pod security standards (restricted) and good practices.
import {createDefaultMonokleValidator} from '@monokle/validation';
import fs from 'node:fs';
import yaml from 'js-yaml';

const PACKAGES = ['kubernetes-models', '@kubernetes-models/cert-manager', '@kubernetes-models/prometheus-operator'];

// Good practices that are not ours, each with its reason.
const RULES_OFF = new Set([
  'cpu-limit',  // a limit slows a pod down while its node idles; requests are what counts
]);

async function modelOf(document) {
  for (const name of PACKAGES) {
    try {
      return (await import(`${name}/${document.apiVersion}/${document.kind}`))[document.kind];
    } catch (error) {
      if (!['ERR_MODULE_NOT_FOUND', 'ERR_PACKAGE_PATH_NOT_EXPORTED'].includes(error.code)) throw error;
    }
  }
  return null;
}

// The schemas allow unknown fields. But a validator looks at every field that it knows, so a field that nobody looked
// at is unknown. An object of which no field was looked at may hold anything.
function watch(value) {
  const node = {value, looked: new Set(), fields: new Map()};
  node.proxy = new Proxy(value, {
    get(target, key) {
      const field = target[key];
      if (typeof key !== 'string') return field;
      node.looked.add(key);
      if (field === null || typeof field !== 'object') return field;
      if (!node.fields.has(key)) node.fields.set(key, watch(field));
      return node.fields.get(key).proxy;
    },
  });
  return node;
}

function unknownFields(node, path, faults) {
  if (node.looked.size === 0) return;
  for (const key of Object.keys(node.value)) {
    if (!Array.isArray(node.value) && !node.looked.has(key)) {
      faults.push(`unknown field ${path}.${key}`);
    } else if (node.fields.has(key)) {
      unknownFields(node.fields.get(key), Array.isArray(node.value) ? `${path}[${key}]` : `${path}.${key}`, faults);
    }
  }
}

async function schemaFaults(document) {
  const Model = await modelOf(document);
  if (Model === null) return [`no schema of ${document.apiVersion} ${document.kind}`];
  const faults = [];
  const root = watch(document);
  root.looked.add('apiVersion').add('kind');
  try {
    // Not of a model: that would hold copies, which nobody watches.
    Model.prototype.validate.call(root.proxy);
  } catch (error) {
    faults.push(String(error.message ?? error));
  }
  unknownFields(root, '', faults);
  return faults;
}

async function ruleFaults(documents) {
  const validator = createDefaultMonokleValidator();
  const plugins = {'pod-security-standards': true, practices: true};
  await validator.preload({plugins});
  const rules = {};
  for (const plugin of validator.getPlugins()) {
    for (const rule of plugin.rules) rules[`${plugin.metadata.name}/${rule.name}`] = RULES_OFF.has(rule.name) ? false : 'err';
  }
  await validator.preload({plugins, rules});
  const resources = documents.map((document, index) => ({
    id: String(index),
    fileId: 'file',
    filePath: `${index}.yaml`,
    fileOffset: 0,
    text: yaml.dump(document, {noRefs: true}),
    name: document.metadata?.name ?? '',
    namespace: document.metadata?.namespace,
    apiVersion: document.apiVersion,
    kind: document.kind,
    content: document,
  }));
  const answer = await validator.validate({resources});
  const faults = [];
  for (const run of answer.runs) {
    for (const result of run.results) {
      const place = result.locations.map((location) => location.physicalLocation?.artifactLocation?.uri ?? '');
      const index = place.map((uri) => /^(\d+)\.yaml$/.exec(uri)?.[1]).find((found) => found !== undefined);
      const document = documents[Number(index ?? 0)];
      faults.push(`${document.kind}/${document.metadata?.name}: ${result.ruleId} ${result.message.text}`);
    }
  }
  return faults;
}

const input = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const output = {};
for (const [name, documents] of Object.entries(input)) {
  const faults = [];
  for (const document of documents) {
    for (const fault of await schemaFaults(document)) faults.push(`${document.kind}/${document.metadata?.name}: ${fault}`);
  }
  faults.push(...(await ruleFaults(documents)));
  output[name] = faults;
}
process.stdout.write(JSON.stringify(output));
