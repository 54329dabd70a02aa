// Package foreign holds tests with MCP clients that know nothing of AI Bridge:
// the official TypeScript SDK and the inspector.
package foreign
