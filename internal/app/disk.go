package app

import "github.com/aibridge/aibridge/internal/diskspace"

// watchDisk begins to watch the room of the data.
func (a *App) watchDisk() {
	folders := []string{a.config.Data}
	if !a.config.inNATS() {
		folders = append(folders, a.config.vfsDir())
	}
	a.disk = diskspace.New(diskspace.Options{
		Folders:    folders,
		Reserve:    a.config.Disk.Reserve(),
		Look:       a.look,
		Log:        a.log,
		Registerer: a.metrics,
	})
	a.run("room on the disk", a.disk.Run)
}
