package kubecontrollers

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/cronjob"
)

func newCronJob(ctx context.Context, e *environment) (func(context.Context), error) {
	batch := e.informers.Batch().V1()
	c, err := cronjob.NewControllerV2(ctx, ownedJobs{batch.Jobs(), batch.CronJobs().Lister()}, batch.CronJobs(), e.client)
	return func(ctx context.Context) { c.Run(ctx, e.workers) }, err
}

// ownedJobs are the Jobs of CronJobs for upstream's controller, which looks for those of
// a CronJob by its UID alone, in all namespaces. A Job of another space that names the UID
// would count as an active or finished one of the CronJob. Owners are in the namespace of
// what they own.
type ownedJobs struct {
	batchinformers.JobInformer
	cronJobs batchlisters.CronJobLister
}

// Informer implements batchinformers.JobInformer.
func (j ownedJobs) Informer() cache.SharedIndexInformer {
	return ownedJobsInformer{j.JobInformer.Informer(), j.cronJobs}
}

type ownedJobsInformer struct {
	cache.SharedIndexInformer
	cronJobs batchlisters.CronJobLister
}

// GetIndexer implements cache.SharedIndexInformer.
func (i ownedJobsInformer) GetIndexer() cache.Indexer {
	return ownedJobsIndexer{i.SharedIndexInformer.GetIndexer(), i.cronJobs}
}

type ownedJobsIndexer struct {
	cache.Indexer
	cronJobs batchlisters.CronJobLister
}

// ByIndex implements cache.Indexer.
func (i ownedJobsIndexer) ByIndex(name, value string) ([]any, error) {
	jobs, err := i.Indexer.ByIndex(name, value)
	return slices.DeleteFunc(jobs, func(obj any) bool { return !i.isOwned(obj) }), err
}

func (i ownedJobsIndexer) isOwned(obj any) bool {
	job, ok := obj.(*batchv1.Job)
	if !ok {
		return false
	}
	ref := metav1.GetControllerOf(job)
	if ref == nil {
		return false
	}
	owner, err := i.cronJobs.CronJobs(job.Namespace).Get(ref.Name)
	return err == nil && owner.UID == ref.UID
}
