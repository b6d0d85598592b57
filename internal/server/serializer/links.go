package serializer

import (
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/tenantry/tenantry/internal/tenant"
)

// resource is where objects of one kind are served.
type resource struct {
	root       string // of its group and version
	name       string
	namespaced bool
}

// Links knows the full path of the objects of one API group.
type Links map[schema.GroupVersionKind]resource

// LinksOf reads the links of a group from its storage.
func LinksOf(group *genericapiserver.APIGroupInfo) Links {
	links := make(Links)
	for version, storages := range group.VersionedResourcesStorageMap {
		for name, storage := range storages {
			if strings.Contains(name, "/") {
				continue
			}
			scoper, ok := storage.(rest.Scoper)
			if !ok {
				continue
			}
			kinds, _, err := group.Scheme.ObjectKinds(storage.New())
			if err != nil || len(kinds) == 0 {
				continue
			}
			gv := schema.GroupVersion{Group: group.PrioritizedVersions[0].Group, Version: version}
			links[gv.WithKind(kinds[0].Kind)] = resource{root: RootOf(gv), name: name, namespaced: scoper.NamespaceScoped()}
		}
	}
	return links
}

// RootOf returns the path of a group version.
func RootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// path returns the full path of an object, or nothing for a kind that is not
// served under a path of its own.
func (r resource) path(n tenant.Name, namespace, name string) string {
	if r.name == "" || name == "" {
		return ""
	}
	var space, namespaces string
	if n.IsSpace() {
		space = n.Root()
	}
	if r.namespaced {
		namespaces = "/namespaces/"
	} else {
		namespace = ""
	}
	return r.root + space + namespaces + namespace + "/" + r.name + "/" + escape(name)
}

// escape encodes a name for a path. Names of roles, for instance, may have spaces
// and line breaks. What it returns has the form of a plain scalar in YAML, too,
// which a colon at its end has not.
func escape(name string) string {
	escaped := url.PathEscape(name)
	if rest, ok := strings.CutSuffix(escaped, ":"); ok {
		return rest + "%3A"
	}
	return escaped
}

// Wrap returns delegate with tenants shown in JSON and YAML, lists written in few pieces, and
// numbers refused that take long to decode.
func Wrap(delegate runtime.NegotiatedSerializer, links Links) runtime.NegotiatedSerializer {
	w := &negotiated{NegotiatedSerializer: delegate}
	for _, info := range delegate.SupportedMediaTypes() {
		info.Serializer = boundNumbers(info.Serializer, info.MediaType)
		info.StrictSerializer = boundNumbers(info.StrictSerializer, info.MediaType)
		switch info.MediaTypeSubType {
		case "json", "yaml":
			info.Serializer = wrapSerializer(info.Serializer, links)
			info.StrictSerializer = wrapSerializer(info.StrictSerializer, links)
			info.PrettySerializer = wrapSerializer(info.PrettySerializer, links)
		case "vnd.kubernetes.protobuf":
			info.Serializer = wrapProtobuf(info.Serializer)
		}
		w.mediaTypes = append(w.mediaTypes, info)
	}
	return w
}

type negotiated struct {
	runtime.NegotiatedSerializer
	mediaTypes []runtime.SerializerInfo
}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (n *negotiated) SupportedMediaTypes() []runtime.SerializerInfo { return n.mediaTypes }
