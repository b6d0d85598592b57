package connect

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/rest"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"
)

// Wrap has the connections to pods in storages go to the host, and returns the storage of their metrics.
func Wrap(storages map[string]rest.Storage, config Config, asked authorizer.Authorizer) (*Metrics, error) {
	pods, ok := storages["pods"].(podStorage)
	if !ok {
		return nil, fmt.Errorf("unexpected storage of pods: %T", storages["pods"])
	}
	h, err := newHost(config, pods)
	if err != nil {
		return nil, err
	}
	upstream, ok := storages["pods/log"].(*podrest.LogREST)
	if !ok {
		return nil, fmt.Errorf("unexpected storage of pods/log: %T", storages["pods/log"])
	}
	storages["pods/log"] = &logs{LogREST: upstream, host: h}
	for _, subresource := range []string{"exec", "attach", "portforward"} {
		upstream, ok := storages["pods/"+subresource].(connecter)
		if !ok {
			return nil, fmt.Errorf("unexpected storage of pods/%s: %T", subresource, storages["pods/"+subresource])
		}
		storages["pods/"+subresource] = &stream{connecter: upstream, subresource: subresource, host: h, authorizer: asked}
	}
	return newMetrics(h, pods)
}

// podStorage reads the pods of the request's space.
type podStorage interface {
	rest.Getter
	rest.Lister
}

func gr(a authorizer.Attributes) schema.GroupResource {
	return schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource() + "/" + a.GetSubresource()}
}
