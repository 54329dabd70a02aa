// Package mcp serves a bridge to MCP clients (Model Context Protocol): its tools,
// resources and prompts, over streamable HTTP, and one message at a time over anything
// else, such as MQTT. It supports every version of the protocol that the official SDK
// supports, both those with sessions (up to 2025-11-25) and the stateless ones (from
// 2026-07-28).
//
// Nothing is registered with the SDK's server beforehand: the visible and callable
// items are determined with every request, by the rights of its principal. So a
// withdrawn right is gone at the next request, and there is no copy of the catalogue to
// keep in sync.
package mcp
