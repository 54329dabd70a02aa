// Package site makes a bridge a site of another one, the centre: agents of the site
// and their skills are registered at the centre under the site's name, and calls of
// them there are made here (docs/sites.md).
//
// The site is a client of the centre, over one connection that it opens itself, and
// answers there for each of its agents as a gateway does. So the centre knows
// nothing new: claims, deadlines, presence and the error 4012 are those that it has
// for any agent (docs/decisions/0073-a-site-is-a-client-of-its-centre.md).
//
// Files of groups follow by the HTTP interface for files of the centre
// (docs/decisions/0097-files-of-a-site-are-compared.md).
package site
