"""Square tables between devices, and the tools of Huawei and MetaX that print little else."""
