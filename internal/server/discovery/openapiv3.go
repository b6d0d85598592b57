package discovery

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

func documentName(gv schema.GroupVersion) string { return "apis/" + gv.String() }

// pathsOf returns where the documents of v3 of custom resources are. Their hash is that of the definitions: one of
// the documents would need all of them for the root document.
func pathsOf(servers []Server) map[string]handler3.OpenAPIV3DiscoveryGroupVersion {
	shown := shownOf(servers)
	paths := map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}
	for _, d := range shown {
		for _, v := range d.Spec.Versions {
			gv := schema.GroupVersion{Group: d.Spec.Group, Version: v.Name}
			name := documentName(gv)
			if _, ok := paths[name]; !ok && v.Served {
				paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: openAPIv3Path + "/" + name + "?hash=" + tagOf(servedIn(gv, shown))}
			}
		}
	}
	return paths
}

// documentV3 returns what serves the document of a group version of custom resources in the space of n to a request,
// nil for one that it does not have.
func (o *openAPI) documentV3(req *http.Request, n tenant.Name, servers []Server) (http.Handler, error) {
	name := strings.TrimPrefix(req.URL.Path, openAPIv3Path+"/")
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(name, "apis/"))
	if err != nil || len(servedIn(gv, shownOf(servers))) == 0 {
		return nil, nil
	}
	space := keyOf(n, servers)
	document, err := o.v3.getOrCreate(req, space, space+" "+name, func() state {
		definitions := servedIn(gv, shownOf(servers))
		bytes := func() int64 { return bytesOf(definitions) + servedBytesV3*int64(len(definitions)) }
		return state{tagOf(definitions), bytes, func() (http.Handler, error) { return buildV3(gv, definitions) }}
	})
	if err != nil {
		return nil, fmt.Errorf("putting together OpenAPI v3 of tenant %q: %w", n, err)
	}
	return tagged(document, document.tag), nil
}

// buildV3 returns what serves the document of a group version of definitions.
func buildV3(gv schema.GroupVersion, definitions []*apiextensionsv1.CustomResourceDefinition) (http.Handler, error) {
	merged := &spec3.OpenAPI{}
	for i, d := range definitions {
		document, err := builder.BuildOpenAPIV3(d, gv.Version, buildOptions(false))
		if err != nil {
			return nil, err
		}
		if i == 0 {
			merged = document
			continue
		}
		dropKnown(document, merged)
		if merged, err = builder.MergeSpecsV3(merged, document); err != nil {
			return nil, err
		}
	}
	service := handler3.NewOpenAPIService()
	service.UpdateGroupVersion(documentName(gv), merged)
	return http.HandlerFunc(service.HandleGroupVersion), nil
}

// tagged lets clients keep a document that they have asked for by its hash, as upstream does.
func tagged(document http.Handler, tag string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		hash := req.URL.Query().Get("hash")
		w = roundtrip.OnHeader(w, func(status int) {
			if hash == tag && status == http.StatusOK {
				w.Header().Set(cacheControl, "private, immutable")
				w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
			}
		})
		req = req.Clone(req.Context())
		req.URL.RawQuery = ""
		document.ServeHTTP(w, req)
	})
}

// dropKnown drops the schemas of a document that another has: those of metadata, and
// of resources that the space has defined itself.
func dropKnown(document, other *spec3.OpenAPI) {
	if document.Components == nil || other.Components == nil {
		return
	}
	for name := range document.Components.Schemas {
		if _, ok := other.Components.Schemas[name]; ok {
			delete(document.Components.Schemas, name)
		}
	}
}
