// Package mqtt is the MQTT transport of MCP, as EMQX specifies it for MCP 2025-03-26
// (MCP over MQTT).
//
// Clients and servers of MCP are clients of the broker, and use topics with their
// client ids. The broker lets every client publish for its own id alone. Devices that
// announce themselves as servers are used by the bridge as external servers, with one
// session at a time: the bridge is their client under an id that is made for the
// session, and accepts on the topics of that id only messages of the device itself. For
// MCP clients the bridge is a server, which is the MCP door.
package mqtt
