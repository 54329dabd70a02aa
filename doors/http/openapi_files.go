package http

import (
	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/protocol"
)

// fileErrors may come back from any path of files, beside the common ones.
var fileErrors = []protocol.Code{
	protocol.NotFound, protocol.AlreadyExists, protocol.VFSUnavailable, protocol.SyncFailed,
	protocol.FileNotFound, protocol.VFSPermission, protocol.NoSpace,
}

// addFilePaths describes the HTTP interface of files (docs/vfs.md), which a
// bridge with the commands of the family vfs serves under /vfs/.
func addFilePaths(paths, schemas object, set *commands.Set) {
	if _, ok := set.Find("vfs.list"); !ok {
		return
	}
	schemas["File"] = fileView()
	binary := object{"application/octet-stream": object{"schema": object{"type": "string", "format": "binary"}}}
	stored := fileAnswer("The file as it is stored.", fileSchema(object{"group_name": object{"type": "string"}}))
	named := []object{groupQuery(), query("file_id", "the file, instead of path", nil), query("path", "the file, instead of file_id", nil)}
	version := query("version", "one of the versions that are kept; the latest otherwise", object{"type": "integer", "minimum": 1})

	paths["/vfs/upload"] = object{
		"post": fileOperation("vfs-upload-form", "Store a file, sent as a form.", uploadHeaders(), object{
			"200": stored, "412": preconditionFailed(),
		}, object{"multipart/form-data": object{"schema": uploadForm()}}),
		"put": fileOperation("vfs-upload", "Store a file, sent as the body.", append(uploadHeaders(),
			groupQuery(),
			required(query("path", "where in the group", nil)),
			query("size", "of the whole file, in bytes; Content-Length otherwise", object{"type": "integer", "minimum": 0}),
			query("checksum", "SHA-256, hexadecimal; what arrives and is something else is refused (4002)", nil),
			query("base", "version that the body changes: it holds only chunks of 256 KiB that are not in that version at the same place", object{"type": "integer", "minimum": 1}),
			query("keep", "chunks of base that stay, such as 0-41,43-99", nil),
		), object{"200": stored, "412": preconditionFailed()}, binary),
	}
	addUploadPaths(paths, schemas, stored)
	paths["/vfs/download"] = object{"get": fileOperation("vfs-download", "Fetch a file, or a part of it.",
		append(named[:3:3], version, header("Range", "bytes=FROM-TO"), header("If-None-Match", "ETag of the version the caller has")),
		object{
			"200": object{"description": "The file.", "headers": fileHeaders(), "content": binary},
			"206": object{"description": "The part asked for.", "headers": fileHeaders(), "content": binary},
			"304": object{"description": "The caller has that version."},
			"412": preconditionFailed(),
			"416": object{"description": "The file has no such part."},
		}, nil)}
	paths["/vfs/chunks"] = object{"get": fileOperation("vfs-chunks", "Fetch the SHA-256 of every chunk of a file, 32 bytes each.",
		[]object{groupQuery(), required(query("path", "the file", nil)), version},
		object{"200": object{"description": "The sums, in order; X-Chunk-Size tells the size of a chunk.", "content": binary}}, nil)}
	paths["/vfs/list"] = object{"get": fileOperation("vfs-list", "List files.", []object{
		groupQuery(),
		query("path", "folder whose files are listed", nil),
		query("prefix", "list what begins with it, instead of a folder", nil),
		query("limit", "files in one answer", object{"type": "integer", "minimum": 1, "maximum": 1000}),
		query("cursor", "next_cursor of the answer before", nil),
		query("deleted", "true lists deleted files that are remembered, too", object{"type": "boolean"}),
		query("snapshot_id", "list the files as they were then", nil),
		query("snapshot", "asks for a snapshot_id", nil),
		query("revision", "asks for the revision of the group", nil),
	}, object{"200": fileAnswer("The files.", object{
		"type": "object", "required": []string{"success", "group_name", "files"},
		"properties": object{
			"success": object{"const": true}, "group_name": object{"type": "string"},
			"files":       object{"type": "array", "items": ref("schemas", "File")},
			"next_cursor": object{"type": "string"}, "snapshot_id": object{"type": "string"}, "revision": object{"type": "string"},
		},
	})}, nil)}
	paths["/vfs/delete"] = object{"delete": fileOperation("vfs-delete", "Delete a file; its versions are kept for a while.",
		append(named[:3:3], header("If-Match", "ETag of the version that is to be deleted")),
		object{"412": preconditionFailed(), "200": fileAnswer("It is deleted.", object{
			"type": "object", "required": []string{"success", "file_id", "path", "version"},
			"properties": object{
				"success": object{"const": true}, "file_id": object{"type": "string"}, "path": object{"type": "string"},
				"version": object{"type": "integer", "description": "of the deletion"},
			},
		})}, nil)}
	paths["/vfs/health"] = object{"get": fileOperation("vfs-health", "Tell how the files are, and how much room there is.", nil,
		object{"200": fileAnswer("All is well.", healthSchema()), "503": fileAnswer("They cannot be reached.", healthSchema())}, nil)}
	paths["/vfs/sync"] = object{"post": object{
		"operationId": "vfs-sync", "tags": []string{"vfs"},
		"summary":     "Run vfs.sync, vfs.sync.to or vfs.sync.from, sent as a request envelope.",
		"requestBody": object{"required": true, "content": jsonContent(ref("schemas", "Request"))},
		"responses":   envelopeResponses(),
	}}
}

// addUploadPaths describes uploads in parts, which go on after a connection broke.
func addUploadPaths(paths, schemas, stored object) {
	number := object{"type": "integer", "minimum": 0}
	schemas["Upload"] = object{
		"type": "object", "required": []string{"upload_id", "group_name", "path", "size", "offset", "step", "expires_at"},
		"properties": object{
			"upload_id": object{"type": "string"}, "group_name": object{"type": "string"}, "path": object{"type": "string"}, "size": number,
			"offset":     object{"type": "integer", "description": "bytes that have come: where to go on"},
			"step":       object{"type": "integer", "description": "divides the offset until the file is whole"},
			"checksum":   object{"type": "string", "description": "SHA-256 that was announced, hexadecimal"},
			"expires_at": object{"type": "integer", "description": "Unix milliseconds; given up then, unless more comes"},
		},
	}
	one := fileAnswer("The upload.", object{"allOf": []object{ref("schemas", "Upload"), {
		"type": "object", "required": []string{"success"}, "properties": object{"success": object{"const": true}},
	}}})
	paths["/vfs/uploads"] = object{
		"post": fileOperation("vfs-upload-begin", "Begin to store a file in parts.", append(uploadHeaders(),
			groupQuery(),
			required(query("path", "where in the group", nil)),
			required(query("size", "of the whole file, in bytes", number)),
			query("checksum", "SHA-256 of the whole file, hexadecimal", nil),
			query("content_type", "media type of the file", nil),
			query("mtime", "when the file was changed last, Unix milliseconds", number),
		), object{"201": one}, nil),
		"get": fileOperation("vfs-upload-list", "List the caller's uploads in parts.", nil, object{"200": fileAnswer("The uploads.", object{
			"type": "object", "required": []string{"success", "uploads"},
			"properties": object{"success": object{"const": true}, "uploads": object{"type": "array", "items": ref("schemas", "Upload")}},
		})}, nil),
	}
	id := object{"name": "upload_id", "in": "path", "required": true, "schema": object{"type": "string"}}
	binary := object{"application/octet-stream": object{"schema": object{"type": "string", "format": "binary"}}}
	paths["/vfs/uploads/{upload_id}"] = object{
		"get":    fileOperation("vfs-upload-get", "Tell how far an upload is.", []object{id}, object{"200": one}, nil),
		"patch":  fileOperation("vfs-upload-part", "Send the next part of a file.", []object{id, required(query("offset", "bytes that have come", number))}, object{"200": one}, binary),
		"delete": fileOperation("vfs-upload-abort", "Give an upload up.", []object{id}, object{"200": one}, nil),
	}
	paths["/vfs/uploads/{upload_id}/finish"] = object{"post": fileOperation("vfs-upload-finish", "Store the file of an upload that is whole.",
		[]object{id, query("checksum", "SHA-256 of the whole file, hexadecimal", nil)}, object{"200": stored, "412": preconditionFailed()}, nil)}
}

// fileOperation is one path and method of files.
func fileOperation(id, summary string, parameters []object, responses, body object) object {
	for status, codes := range byStatus(append(commonErrors[:len(commonErrors):len(commonErrors)], fileErrors...)) {
		if _, described := responses[status]; !described {
			responses[status] = fileError(codes)
		}
	}
	op := object{"operationId": id, "summary": summary, "tags": []string{"vfs"}, "responses": responses}
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if body != nil {
		op["requestBody"] = object{"required": true, "content": body}
	}
	return op
}

func fileAnswer(description string, schema object) object {
	return object{"description": description, "content": jsonContent(schema)}
}

// fileError is the error response of the paths of files: an error, with success beside
// it.
func fileError(codes []protocol.Code) object {
	response := errorResponse(codes)
	schema := response["content"].(object)["application/json"].(object)["schema"].(object)
	schema["required"] = []string{"success", "error"}
	properties := schema["properties"].(object)
	delete(properties, "result")
	properties["success"] = object{"const": false}
	return response
}

func preconditionFailed() object {
	response := fileError([]protocol.Code{protocol.RevisionConflict})
	response["description"] = "If-Match or If-None-Match does not hold: somebody else was first."
	return response
}

func query(name, description string, schema object) object {
	if schema == nil {
		schema = object{"type": "string"}
	}
	return object{"name": name, "in": "query", "description": description, "schema": schema}
}

func header(name, description string) object {
	return object{"name": name, "in": "header", "description": description, "schema": object{"type": "string"}}
}

func required(parameter object) object {
	parameter["required"] = true
	return parameter
}

func groupQuery() object {
	return required(query("group_name", "group of files", object{"type": "string", "minLength": 1}))
}

func uploadHeaders() []object {
	return []object{
		header("If-Match", "ETag of the version that is to be replaced"),
		header("If-None-Match", "* stores only what is not there yet"),
		header("X-Checksum-Sha256", "SHA-256, hexadecimal; like checksum"),
	}
}

func uploadForm() object {
	text := object{"type": "string"}
	return object{
		"type": "object", "required": []string{"group_name", "path", "file"},
		"description": "The file comes last: it is then stored as it arrives.",
		"properties": object{
			"group_name": text, "path": text, "size": object{"type": "integer", "minimum": 0},
			"checksum": object{"type": "string", "description": "SHA-256, hexadecimal"},
			"file":     object{"type": "string", "format": "binary"},
		},
	}
}

func fileHeaders() object {
	text := func(description string) object {
		return object{"description": description, "schema": object{"type": "string"}}
	}
	return object{
		"ETag": text("the version"), "X-File-Id": text("the file"), "X-File-Version": text("the version"),
		"X-Checksum-Sha256": text("SHA-256, hexadecimal"),
	}
}

// fileSchema is a file as callers see it, with more beside it.
func fileSchema(more object) object {
	properties := object{"success": object{"const": true}}
	for name, schema := range more {
		properties[name] = schema
	}
	return object{"type": "object", "required": []string{"success"}, "allOf": []object{ref("schemas", "File")}, "properties": properties}
}

// fileView is the schema of a file as callers see it.
func fileView() object {
	text, number := object{"type": "string"}, object{"type": "integer", "minimum": 0}
	return object{
		"type": "object", "required": []string{"file_id", "path", "version", "size", "modified"},
		"properties": object{
			"file_id": object{"type": "string", "description": "names the file through all its versions"},
			"path":    text, "version": object{"type": "integer", "description": "rises with every change"},
			"size": number, "checksum": object{"type": "string", "description": "SHA-256, hexadecimal"},
			"modified":     object{"type": "integer", "description": "Unix milliseconds"},
			"content_type": text, "deleted": object{"type": "boolean"},
		},
	}
}

func healthSchema() object {
	text, number := object{"type": "string"}, object{"type": "integer", "minimum": 0}
	return object{
		"type": "object", "required": []string{"status", "version", "timestamp", "details"},
		"properties": object{
			"status": object{"enum": []string{"healthy", "unhealthy"}}, "version": text,
			"timestamp": object{"type": "integer", "description": "Unix milliseconds"},
			"details": object{"type": "object", "properties": object{
				"storage_used": text, "storage_total": text, "storage_used_bytes": number, "storage_total_bytes": number,
				"connections": object{"type": "integer", "description": "transfers under way"},
			}},
		},
	}
}
