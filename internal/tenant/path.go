package tenant

import (
	"fmt"
	"strings"
)

// rootPath begins the path of a space root.
const rootPath = "/tenants/"

// NamesRoot reports whether a URL path begins with a space root.
func NamesRoot(path string) bool { return strings.HasPrefix(path, rootPath) }

// Target is what a URL path says about the space it addresses.
type Target struct {
	// Scope is what the path names, empty for a short path.
	Scope Scope
	// Path is the ordinary Kubernetes path inside that space.
	Path string
	// Escaped is Path as it was encoded.
	Escaped string
}

// ParsePath splits a URL path into the space it names and an ordinary path, for the three
// URL forms:
//
//	/tenants/{t}/...                    space root
//	/api/v1/tenants/{t}/...             full path
//	/apis/{group}/{version}/tenants/{t}/...
//	anything else                       short path
//
// /api/v1/tenants/{t}, and its subresources status and finalize, are the Tenant
// object itself and therefore short paths. A space root may be followed by a
// full path of the same tenant.
//
// path is the decoded path; escaped its encoded form as sent. A path that could
// be read in more than one way (an escaped or empty segment, "." or "..") is an
// error, never a guess.
func ParsePath(path, escaped string) (Target, error) {
	if err := checkSegments(path); err != nil {
		return Target{}, err
	}
	target := Target{Path: path, Escaped: escaped}
	prefix, literal := "", "" // what replaces the part that names the space, and that part
	if rest, ok := cutSegment(path, "tenants"); ok && rest != "" {
		name, rest := splitSegment(rest)
		t, err := parseRoot(name)
		if err != nil {
			return Target{}, err
		}
		target = Target{Scope: t, Path: "/" + rest}
		prefix, literal = "/", path[:len(path)-len(rest)]
		if _, nested := cutSegment(target.Path, "tenants"); nested {
			return Target{}, fmt.Errorf("path %q names a space twice", path)
		}
	}
	if resource, name, rest, ok := splitFullPath(target.Path); ok {
		t, err := parseScope(name)
		if err != nil {
			return Target{}, err
		}
		if target.Scope != "" && target.Scope != t {
			return Target{}, fmt.Errorf("path %q names two spaces, %q and %q", path, target.Scope, t)
		}
		prefix, literal = resource+"/", path[:len(path)-len(rest)]
		target = Target{Scope: t, Path: prefix + rest}
	}
	rest, ok := strings.CutPrefix(escaped, literal)
	if !ok {
		return Target{}, fmt.Errorf("path %q has escaped characters where it names the space", escaped)
	}
	target.Escaped = prefix + rest
	return target, nil
}

// parseRoot parses the name in a space root, where Everything is allowed too.
func parseRoot(name string) (Scope, error) {
	if Scope(name) == Everything {
		return Everything, nil
	}
	return parseScope(name)
}

// splitFullPath splits /api/v1[/watch]/tenants/{name}/{rest} and
// /apis/{group}/{version}[/watch]/tenants/{name}/{rest}. It reports false where
// the path has no tenant or is the Tenant object itself.
func splitFullPath(path string) (prefix, name, rest string, ok bool) {
	skip := 0
	switch {
	case strings.HasPrefix(path, "/api/"):
		skip = 2
	case strings.HasPrefix(path, "/apis/"):
		skip = 3
	default:
		return "", "", "", false
	}
	at := 0
	for range skip {
		next := strings.IndexByte(path[at+1:], '/')
		if next < 0 {
			return "", "", "", false
		}
		at += next + 1
	}
	prefix, tail := path[:at], path[at:]
	if watched, isWatch := cutSegment(tail, "watch"); isWatch {
		prefix, tail = prefix+"/watch", "/"+watched
	}
	tail, ok = cutSegment(tail, "tenants")
	if !ok {
		return "", "", "", false
	}
	name, rest = splitSegment(tail)
	if rest == "" || rest == "status" || rest == "finalize" {
		return "", "", "", false
	}
	return prefix, name, rest, true
}

// cutSegment removes a leading "/segment" and the slash after it.
func cutSegment(path, segment string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/"+segment)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// splitSegment splits "name/rest".
func splitSegment(path string) (name, rest string) {
	name, rest, _ = strings.Cut(path, "/")
	return name, rest
}

// checkSegments refuses segments that readers of a path may interpret differently. What
// follows a proxy subresource belongs to the proxied server.
func checkSegments(path string) error {
	if path == "" || path[0] != '/' {
		return fmt.Errorf("path %q does not begin with a slash", path)
	}
	proxied := false
	for at := 1; at < len(path); {
		segment, _, more := strings.Cut(path[at:], "/")
		switch {
		case segment == "" && !proxied:
			return fmt.Errorf("path %q has an empty segment", path)
		case segment == "." || segment == "..":
			return fmt.Errorf("path %q has a segment %q", path, segment)
		case segment == "proxy":
			proxied = true
		}
		at += len(segment)
		if more {
			at++
		}
	}
	return nil
}
