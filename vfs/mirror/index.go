package mirror

import "strings"

// A pathIndex knows paths by the folders they are in. The zero value is empty.
type pathIndex struct {
	folders map[string]map[string]bool // the names in a folder, "." the top; true for those of files
}

// split takes a path apart into its folder and its name.
func split(path string) (folder, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return ".", path
}

// add adds a file, and the folders above it.
func (x *pathIndex) add(path string) {
	if x.folders == nil {
		x.folders = make(map[string]map[string]bool)
	}
	for file := true; path != "."; file = false {
		folder, name := split(path)
		names := x.folders[folder]
		known := names != nil
		if !known {
			names = make(map[string]bool)
			x.folders[folder] = names
		}
		names[name] = names[name] || file
		if known && !file {
			return
		}
		path = folder
	}
}

// remove removes a file, and the folders above it that are empty then.
func (x *pathIndex) remove(path string) {
	folder, name := split(path)
	if !x.folders[folder][name] {
		return
	}
	if x.folders[path] != nil {
		x.folders[folder][name] = false // is a folder as well
		return
	}
	for {
		names := x.folders[folder]
		delete(names, name)
		if len(names) > 0 || folder == "." {
			return
		}
		delete(x.folders, folder)
		if folder, name = split(folder); x.folders[folder][name] {
			return // is a file as well
		}
	}
}

// below lists the files at a path and below it.
func (x *pathIndex) below(path string) (list []string) {
	if folder, name := split(path); x.folders[folder][name] {
		list = append(list, path)
	}
	return x.inside(path, list)
}

func (x *pathIndex) inside(folder string, list []string) []string {
	for name, file := range x.folders[folder] {
		path := name
		if folder != "." {
			path = folder + "/" + name
		}
		if file {
			list = append(list, path)
		}
		list = x.inside(path, list)
	}
	return list
}

// holds reports whether a path is that of a file.
func (x *pathIndex) holds(path string) bool {
	folder, name := split(path)
	return x.folders[folder][name]
}

// has reports whether a path is that of a file or folder.
func (x *pathIndex) has(path string) bool {
	folder, name := split(path)
	_, ok := x.folders[folder][name]
	return ok
}
