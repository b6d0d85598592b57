package discovery

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/request"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/tenantry/tenantry/internal/tenant"
)

// maxMerged is how many are cached, of all spaces: each has what all spaces are served, too, which its bytes do not
// count. It is chosen.
const maxMerged = 64

// merged is the discovery of a space whose custom resources several servers serve, or
// one that has more than the space sees.
type merged struct {
	// tags are those of what the servers serve.
	tags   []string
	groups aggregated.ResourceManager
	// versions are the custom group versions.
	versions []schema.GroupVersion
	// documents are those of groups and group versions, by path.
	documents map[string]runtime.Object
}

// merge returns the discovery of the space of n. It is made again when a server has others than those of its tags.
func (r *Router) merge(n tenant.Name, servers []Server) (*merged, error) {
	key := keyOf(n, servers)
	last := r.merged.get(key)
	if last == nil || len(last.tags) != len(servers) {
		last = &merged{tags: make([]string, len(servers))}
	}
	tags, bodies, err := readChanged(servers, last.tags)
	if err != nil {
		return nil, fmt.Errorf("putting together the discovery of tenant %q: %w", n, err)
	}
	if slices.Equal(tags, last.tags) {
		return last, nil
	}
	// Who asks for a later state does not get what is being made of an earlier one.
	found, err, _ := r.merging.Do(key+" "+strings.Join(tags, " "), func() (any, error) { return r.mergeAnew(key, servers, tags, bodies) })
	if err != nil {
		return nil, fmt.Errorf("putting together the discovery of tenant %q: %w", n, err)
	}
	return found.(*merged), nil
}

func (r *Router) mergeAnew(key string, servers []Server, tags []string, bodies [][]byte) (*merged, error) {
	var custom []apidiscoveryv2.APIGroupDiscovery
	bytes := 0
	for i, body := range bodies {
		var list apidiscoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("decoding aggregated discovery: %w", err)
		}
		custom = r.addGroups(custom, list.Items, servers[i].Serves)
		bytes += len(body)
	}
	m := newMerged(tags, r.List(), custom)
	r.merged.put(key, m, int64(bytes))
	return m, nil
}

// readChanged returns the tags of what servers serve and, if one is not as it is known, all of that.
func readChanged(servers []Server, known []string) (tags []string, bodies [][]byte, err error) {
	for i, server := range servers {
		tag, body, err := server.readGroups(known[i])
		if err != nil {
			return nil, nil, err
		}
		tags, bodies = append(tags, tag), append(bodies, body)
	}
	if slices.Equal(tags, known) {
		return tags, nil, nil
	}
	for i, server := range servers {
		if bodies[i] == nil {
			if tags[i], bodies[i], err = server.readGroups(""); err != nil {
				return nil, nil, err
			}
		}
	}
	return tags, bodies, nil
}

// readGroups returns the groups of a server and the tag of what the space sees of them, and no groups if that is known.
func (s Server) readGroups(known string) (tag string, body []byte, err error) {
	suffix := " " + s.Excluded
	etag, found := strings.CutSuffix(known, suffix)
	if !found {
		etag = ""
	}
	response, err := ask(s.Groups, "/apis", aggregatedJSON, etag)
	switch {
	case err != nil:
		return "", nil, err
	case response.status == http.StatusNotModified && etag != "":
		return known, nil, nil
	case response.status != http.StatusOK:
		return "", nil, fmt.Errorf("the server of the definitions answered %d", response.status)
	}
	return response.header.Get("Etag") + suffix, response.body, nil
}

// addGroups adds to groups what a server serves of others.
func (r *Router) addGroups(groups, others []apidiscoveryv2.APIGroupDiscovery, serves func(schema.GroupResource, bool) bool) []apidiscoveryv2.APIGroupDiscovery {
	for _, other := range others {
		if slices.ContainsFunc(r.List(), func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == other.Name }) {
			continue
		}
		for _, from := range other.Versions {
			from.Resources = slices.DeleteFunc(from.Resources, func(resource apidiscoveryv2.APIResourceDiscovery) bool {
				return !serves(schema.GroupResource{Group: other.Name, Resource: resource.Resource}, false)
			})
			if len(from.Resources) > 0 {
				groups = addVersion(groups, other, from)
			}
		}
	}
	return groups
}

func addVersion(groups []apidiscoveryv2.APIGroupDiscovery, of apidiscoveryv2.APIGroupDiscovery, added apidiscoveryv2.APIVersionDiscovery) []apidiscoveryv2.APIGroupDiscovery {
	at := slices.IndexFunc(groups, func(g apidiscoveryv2.APIGroupDiscovery) bool { return g.Name == of.Name })
	if at < 0 {
		at = len(groups)
		of.Versions = nil
		groups = append(groups, of)
	}
	group := &groups[at]
	if i := slices.IndexFunc(group.Versions, func(v apidiscoveryv2.APIVersionDiscovery) bool { return v.Version == added.Version }); i >= 0 {
		group.Versions[i].Resources = append(group.Versions[i].Resources, added.Resources...)
		return groups
	}
	group.Versions = append(group.Versions, added)
	slices.SortFunc(group.Versions, func(a, b apidiscoveryv2.APIVersionDiscovery) int {
		return version.CompareKubeAwareVersionStrings(b.Version, a.Version)
	})
	return groups
}

func newMerged(tags []string, builtin, custom []apidiscoveryv2.APIGroupDiscovery) *merged {
	m := &merged{tags: tags, groups: aggregated.NewResourceManager("apis"), documents: make(map[string]runtime.Object)}
	m.groups.SetGroups(slices.Concat(builtin, custom))
	m.versions = addDocuments(m.documents, custom)
	return m
}

// addDocuments adds the documents of groups, by path, and returns their versions.
func addDocuments(to map[string]runtime.Object, of []apidiscoveryv2.APIGroupDiscovery) (versions []schema.GroupVersion) {
	groups, resources, _ := clientdiscovery.SplitGroupsAndResources(apidiscoveryv2.APIGroupDiscoveryList{Items: of})
	for i := range groups.Groups {
		to["/apis/"+groups.Groups[i].Name] = &groups.Groups[i]
	}
	for gv, list := range resources {
		to["/apis/"+gv.String()] = list
		versions = append(versions, gv)
	}
	return versions
}

// customAmong serves the custom resources of the space of n.
func (r *Router) customAmong(n tenant.Name, servers []Server) http.Handler {
	return perRequest(func(req *http.Request) (http.Handler, error) {
		if info, ok := request.RequestInfoFrom(req.Context()); ok && info.IsResourceRequest {
			return r.serverOf(req, schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, servers), nil
		}
		found, err := r.merge(n, servers)
		if err != nil {
			return nil, err
		}
		if document, ok := found.documents[strings.TrimSuffix(req.URL.Path, "/")]; ok {
			return r.serveObject(document), nil
		}
		return r.NotFound, nil
	})
}

// serverOf returns what serves a resource. What is hidden is served to the system's
// users, among them the controllers, which must not overlook what a space has.
func (r *Router) serverOf(req *http.Request, resource schema.GroupResource, servers []Server) http.Handler {
	own, err := tenant.UserTenant(req.Context())
	bySystem := err == nil && own == tenant.System
	for _, server := range servers {
		if server.Serves(resource, bySystem) {
			return server.Handler
		}
	}
	return r.NotFound
}
