package published

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/controller/spaceclient"
	"github.com/tenantry/tenantry/internal/tenant"
)

// fieldManager owns the fields that this controller writes.
const fieldManager = "tenantry-publisher"

// clients reach the system space and the others.
type clients struct {
	// system reads published objects.
	system rest.Interface
	// publisher writes into spaces, whose objects it answers with by metadata.
	publisher rest.Interface
	// published and copies watch the system space and all others.
	published, copies metadata.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	shared := rest.CopyConfig(config)
	shared.QPS = -1 // the server's priority and fairness limits, not the client
	shared.ContentType, shared.AcceptContentTypes = "", ""
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, err
	}
	shared.APIPath, shared.GroupVersion = "/", &schema.GroupVersion{Version: "v1"} // all paths are absolute
	shared.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	system, err := rest.RESTClientFor(shared)
	if err != nil {
		return nil, fmt.Errorf("creating the client of published objects: %w", err)
	}
	writer, err := rest.RESTClientFor(spaceclient.AsPublisher(shared))
	if err != nil {
		return nil, fmt.Errorf("creating the client of the publisher: %w", err)
	}
	published, err := metadata.NewForConfig(metadata.ConfigFor(shared))
	if err != nil {
		return nil, fmt.Errorf("creating the metadata client of the system space: %w", err)
	}
	all := rest.CopyConfig(shared)
	all.Host += tenant.All.Root()
	copies, err := metadata.NewForConfig(metadata.ConfigFor(all))
	if err != nil {
		return nil, fmt.Errorf("creating the metadata client of all spaces: %w", err)
	}
	return &clients{system: system, publisher: writer, published: published, copies: copies}, nil
}

// source reads a published object.
func (c *clients) source(ctx context.Context, r schema.GroupVersionResource, o Object) (*unstructured.Unstructured, error) {
	body, err := c.system.Get().AbsPath(path(r, o.Namespace, o.Name)).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	source := &unstructured.Unstructured{}
	return source, source.UnmarshalJSON(body)
}

const metadataOnly = runtime.ContentTypeJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// write sends a copy to a space and returns what it has become.
func (c *clients) write(ctx context.Context, verb string, n tenant.Name, path string, body []byte) (*metav1.PartialObjectMetadata, error) {
	request := c.publisher.Verb(verb).AbsPath(n.Root()+path).SetHeader("Accept", metadataOnly)
	if verb != http.MethodGet {
		request = request.Param("fieldManager", fieldManager)
	}
	if body != nil {
		kind := runtime.ContentTypeJSON
		if verb == http.MethodPatch {
			kind = string(types.MergePatchType)
		}
		request = request.SetHeader("Content-Type", kind).Body(body)
	}
	answer := &metav1.PartialObjectMetadata{}
	return answer, request.Do(ctx).Into(answer)
}

func (c *clients) create(ctx context.Context, n tenant.Name, desired *desiredCopy) (*metav1.PartialObjectMetadata, error) {
	return c.write(ctx, http.MethodPost, n, path(desired.resource, desired.object.Namespace, ""), desired.body(0))
}

// validate returns the error that the creation of a copy would have if there were none.
func (c *clients) validate(ctx context.Context, n tenant.Name, desired *desiredCopy) error {
	err := c.publisher.Post().AbsPath(n.Root()+path(desired.resource, desired.object.Namespace, "")).
		Param("fieldManager", fieldManager).Param("dryRun", metav1.DryRunAll).
		SetHeader("Accept", metadataOnly).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(desired.body(0)).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) { // which is found last
		return nil
	}
	return err
}

// update replaces a version of an object.
func (c *clients) update(ctx context.Context, n tenant.Name, desired *desiredCopy, version uint64) (*metav1.PartialObjectMetadata, error) {
	return c.write(ctx, http.MethodPut, n, path(desired.resource, desired.object.Namespace, desired.object.Name), desired.body(version))
}

func (c *clients) get(ctx context.Context, n tenant.Name, r schema.GroupVersionResource, o Object) (*metav1.PartialObjectMetadata, error) {
	return c.write(ctx, http.MethodGet, n, path(r, o.Namespace, o.Name), nil)
}

// mark marks what is not, or no longer, a copy: as kind or, if that is empty, as
// the tenant's own.
func (c *clients) mark(ctx context.Context, n tenant.Name, r schema.GroupVersionResource, name, kind string) (*metav1.PartialObjectMetadata, error) {
	body := fmt.Sprintf(`{"metadata": {"labels": {%q: %q}}}`, tenant.PublishedCopyLabel, kind)
	if kind == "" {
		body = fmt.Sprintf(`{"metadata": {"labels": {%q: null}, "annotations": {%q: null}}}`, tenant.PublishedCopyLabel, tenant.PublishedFromAnnotation)
	}
	return c.write(ctx, http.MethodPatch, n, path(r, "", name), []byte(body))
}

// delete deletes a version of an object.
func (c *clients) delete(ctx context.Context, n tenant.Name, r schema.GroupVersionResource, o Object, version uint64) error {
	options, err := json.Marshal(&metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
		Preconditions:     &metav1.Preconditions{ResourceVersion: new(strconv.FormatUint(version, 10))},
	})
	if err != nil {
		return err
	}
	return c.publisher.Delete().AbsPath(n.Root()+path(r, o.Namespace, o.Name)).
		SetHeader("Content-Type", runtime.ContentTypeJSON).Body(options).Do(ctx).Error()
}
