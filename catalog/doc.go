// Package catalog is the machine over the catalog's records: the cluster's id, one broker epoch per start, topics, configs, client quotas and blocks of
// producer ids. It is pure: Step decides, Apply is the only writer of hard state, live and at replay, and what reaches
// the data path are orders. The driver is internal/coord; the shell is broker.
//
// The records are JSON under readable keys, one key for each thing, so that the newest record of a key says all there is to know of it:
//
//	key                   value                                                          tombstone when
//	cluster               {"v":1,"id":"Zm9vYmFyYmF6cXV4MTIzNA"}                          never
//	epoch                 {"v":1,"epoch":7}                                              never
//	producer-ids          {"v":1,"next":3000}                                            never
//	topic/<id>            {"v":1,"name":"orders","partitions":3,"config":{...}}          its files are gone
//	                      {"v":1,"name":"orders","partitions":3,"deleted":true}
//	config/broker/<name>  {"v":1,"values":{"log.retention.ms":"1000"}}                   no value is left
//	config/group/<name>   the same
//	quota/<entity>        {"v":1,"values":{"producer_byte_rate":1024}}                   no quota is left
//
// A quota's entity is a path of kinds and escaped names, or <default>: users/alice, users/<default>/clients/app, ips/10.0.0.1.
//
// A topic's config stands in the topic's own record, so a topic of the same name that comes later cannot inherit it. A deletion
// stays recorded until the files are gone, because files that the catalog has never heard of are kept.
//
// Readers ignore fields that they do not know and refuse a version that they do not know. So a field may be added
// at any time if old readers may miss it; a change that they must not miss raises v.
package catalog
