package search

import (
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/search/index"
	"github.com/tenantry/tenantry/internal/server/crd"
	"github.com/tenantry/tenantry/internal/server/storage"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
)

// What every tenant's space shows without storing it, see storage.Defaults, is in the index once.

var (
	clusterRoles = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}
	definitions  = schema.GroupResource{Group: apiextensionsv1.GroupName, Resource: "customresourcedefinitions"}
)

// sharedKey is the key of a shared row, which is none of etcd.
func sharedKey(resource schema.GroupResource, name string) string {
	return "shared " + resource.String() + " " + name
}

// defaultWrites are the rows of the default ClusterRoles, which spaces have whether or not the system
// space has them.
func defaultWrites() []index.Write {
	var writes []index.Write
	for _, name := range slices.Sorted(maps.Keys(spacerbac.DefaultClusterRoles())) {
		writes = append(writes, defaultClusterRole(name, nil))
	}
	return writes
}

// defaultClusterRole returns the row of a default ClusterRole. It is as old as that of the system space.
func defaultClusterRole(name string, object runtime.Object) index.Write {
	role := spacerbac.DefaultClusterRoles()[name]
	row := index.Row{Space: index.Shared, Resource: clusterRoles, Name: name, Kind: "ClusterRole", Details: index.Details{Labels: role.Labels}}
	if accessor, err := meta.Accessor(object); err == nil {
		row.Created = accessor.GetCreationTimestamp().Unix()
	}
	return index.Write{Key: sharedKey(clusterRoles, name), Rows: []index.Row{row}}
}

// sharedWrites returns what becomes of a change of the system space in the spaces that see it. The object
// is nil if it has gone.
func (s *writer) sharedWrites(change *storage.StoredChange, object runtime.Object) ([]index.Write, error) {
	if change.Custom || change.Object.Space != tenant.System {
		return nil, nil
	}
	name := change.Object.Name
	switch resource := change.Resource; {
	case resource == clusterRoles && spacerbac.DefaultClusterRoles()[name] != nil:
		return []index.Write{defaultClusterRole(name, object)}, nil
	case resource == definitions:
		return s.sharedWrite(change, object, crd.Shown)
	case storage.IsService(objects.Ref{Resource: resource, Namespace: change.Object.Namespace, Name: name}):
		return s.sharedWrite(change, object, func(object runtime.Object) (bool, error) {
			accessor, err := meta.Accessor(object)
			if err == nil {
				accessor.SetAnnotations(nil)
			}
			return true, err
		})
	default:
		return nil, nil
	}
}

// sharedWrite returns the row of an object as adapt makes it for spaces, none if they do not see it.
func (s *writer) sharedWrite(change *storage.StoredChange, object runtime.Object, adapt func(runtime.Object) (bool, error)) ([]index.Write, error) {
	write := index.Write{Key: sharedKey(change.Resource, change.Object.Name)}
	if object == nil {
		return []index.Write{write}, nil
	}
	object = object.DeepCopyObject()
	shown, err := adapt(object)
	if err != nil || !shown {
		return []index.Write{write}, err
	}
	found, propertiesErr := s.properties.Of(change.Resource, object, nil)
	row, err := index.NewRow(index.Shared, change.Resource, object, s.options.Annotations, found)
	if err != nil {
		return []index.Write{write}, err
	}
	row.UID = "" // each space shows another one
	write.Rows = []index.Row{row}
	return []index.Write{write}, propertiesErr
}
