// The validators of the field: node validate.mjs KIND FILE…, of one kind each time. It
// prints what is wrong, a line each, with the file before it; nothing is wrong with exit
// code 0, and something with 1.
import { readFileSync } from "node:fs";

const validators = {
  async asyncapi() {
    const { Parser } = (await import("@asyncapi/parser")).default;
    const parser = new Parser();
    return async (text) => {
      // Severities: 0 error, 1 warning; 2 and 3 are advice, such as to name a licence.
      const { diagnostics } = await parser.parse(text);
      return diagnostics.filter((d) => d.severity < 2).map((d) => `${d.path.join("/")}: ${d.message}`);
    };
  },
  async openapi() {
    const { Validator } = await import("@seriousme/openapi-schema-validator");
    return async (text) => {
      const validator = new Validator();
      const { valid, errors } = await validator.validate(JSON.parse(text));
      if (!valid) return [].concat(errors).map((e) => (e.message ? `${e.instancePath}: ${e.message}` : String(e)));
      validator.resolveRefs(); // throws for one that leads nowhere
      return [];
    };
  },
  async thing() {
    const { tdValidator } = (await import("@thing-description-playground/core")).default;
    return async (text) => {
      const lines = [];
      // JSON-LD is left out: it would fetch the contexts from the web.
      const { report, details } = await tdValidator(text, (line) => lines.push(line), { checkDefaults: false, checkJsonLd: false });
      const bad = [];
      for (const [check, verdict] of Object.entries({ ...report, ...details })) {
        if (verdict === "failed") bad.push(`${check}: ${lines.join(" ")}`);
      }
      return bad;
    };
  },
};

const [kind, ...files] = process.argv.slice(2);
const validate = await validators[kind]();
let wrong = 0;
for (const file of files) {
  let found;
  try {
    found = await validate(readFileSync(file, "utf8"));
  } catch (e) {
    found = [String(e)];
  }
  for (const line of found) console.log(`${file}: ${line}`);
  wrong += found.length;
}
process.exit(wrong > 0 ? 1 : 0);
