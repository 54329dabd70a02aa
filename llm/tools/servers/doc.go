// Package servers is the source of the tools of external MCP servers: configured
// servers, reached over streamable HTTP or started as a program, and devices that are
// servers over MQTT.
//
// A server is not trusted unless the operator says so. Its declarations of tools are
// data; a tool is offered while its declaration equals the approved one, and a new or
// changed tool waits until an operator approves it. Calls run the command mcp.tool.call
// as the caller, so policy and audit apply.
package servers
