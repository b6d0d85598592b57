package spaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Tenants write names that controllers later put into URLs, such as those of owners.
// With a name like "x/../../../watch/secrets", the request would be another one than the
// controller meant, with all its rights. Typed and dynamic clients refuse such names. The
// metadata client joins them to a path, which is cleaned before the transport sees it.
// So names are checked in front of that client, and paths in routeOf.

// checkName returns why a name, flattened or not, cannot be a segment of a path.
func checkName(name string) error {
	plain := tenant.Flat(name).Plain()
	if plain == "" {
		return fmt.Errorf("name %q is empty", name)
	}
	for _, segment := range []string{name, plain} {
		if reasons := content.IsPathSegmentName(segment); len(reasons) > 0 {
			return fmt.Errorf("name %q %s", name, strings.Join(reasons, ", "))
		}
	}
	return nil
}

// NewMetadataClient returns a metadata client with a config of this package. It refuses
// requests with a name that is not one segment of the path.
func NewMetadataClient(config *rest.Config) (metadata.Interface, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return checkedMetadata{client}, nil
}

type checkedMetadata struct{ metadata.Interface }

// Resource implements metadata.Interface.
func (c checkedMetadata) Resource(resource schema.GroupVersionResource) metadata.Getter {
	names := []string{resource.Version, resource.Resource}
	if resource.Group != "" {
		names = append(names, resource.Group)
	}
	getter := c.Interface.Resource(resource)
	return checkedGetter{checkedResource{getter, names}, getter}
}

type checkedGetter struct {
	checkedResource
	getter metadata.Getter
}

// Namespace implements metadata.Getter.
func (c checkedGetter) Namespace(namespace string) metadata.ResourceInterface {
	names := c.names
	if namespace != "" {
		names = append(slices.Clip(names), namespace)
	}
	return checkedResource{c.getter.Namespace(namespace), names}
}

// checkedResource checks the names in the path of each request.
type checkedResource struct {
	metadata.ResourceInterface
	names []string
}

func (c checkedResource) check(names ...string) error {
	for _, name := range slices.Concat(c.names, names) {
		if err := checkName(name); err != nil {
			return fmt.Errorf("request for %s is refused: %w", strings.Join(c.names, "/"), err)
		}
	}
	return nil
}

// Delete implements metadata.ResourceInterface.
func (c checkedResource) Delete(ctx context.Context, name string, options metav1.DeleteOptions, subresources ...string) error {
	if err := c.check(append(subresources, name)...); err != nil {
		return err
	}
	return c.ResourceInterface.Delete(ctx, name, options, subresources...)
}

// DeleteCollection implements metadata.ResourceInterface.
func (c checkedResource) DeleteCollection(ctx context.Context, options metav1.DeleteOptions, listOptions metav1.ListOptions) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.ResourceInterface.DeleteCollection(ctx, options, listOptions)
}

// Get implements metadata.ResourceInterface.
func (c checkedResource) Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	if err := c.check(append(subresources, name)...); err != nil {
		return nil, err
	}
	return c.ResourceInterface.Get(ctx, name, options, subresources...)
}

// List implements metadata.ResourceInterface.
func (c checkedResource) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return c.ResourceInterface.List(ctx, options)
}

// Watch implements metadata.ResourceInterface.
func (c checkedResource) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return c.ResourceInterface.Watch(ctx, options)
}

// Patch implements metadata.ResourceInterface.
func (c checkedResource) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*metav1.PartialObjectMetadata, error) {
	if err := c.check(append(subresources, name)...); err != nil {
		return nil, err
	}
	return c.ResourceInterface.Patch(ctx, name, kind, data, options, subresources...)
}
